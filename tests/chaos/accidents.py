"""accidents.py - a course of random accidents for a running mesh.Mesh; everybody is there and well at its end.

    course = Course(mesh, ["n0", "n1", "n2"], random.Random("1/7"), steps=300)
    course.run()                # starts the nodes, harms them, heals them
    course.finish()             # all end with status 0
    print(course.said)          # what happened, for a person

Accidents: one to all of the nodes are killed at once and started again, with their checkpoints or without; some
are stopped and go on; one comes late. A mesh of one node can only be killed and started again."""
import os
import signal
import time

import mesh as chaos

BACK = ["with its files", "with --resume", "with nothing"]  # how a node that was killed comes back


class Course:
    def __init__(self, mesh, names, random, steps, options=lambda name: ()):
        """`options(name)` are those of a node."""
        self.mesh, self.names, self.random, self.steps = mesh, list(names), random, steps
        self.options = options
        self.said = []
        self.folders = []  # of all starts: one that comes back with nothing gets a new one

    def start(self, name, *more, how=BACK[0]):
        out = self.mesh.nodes[name].out if name in self.mesh.nodes else None
        if not out or how == BACK[2]:
            out = os.path.join(self.mesh.folder, f"{name}-{len(self.folders)}")
            self.folders.append(out)
        self.mesh.start(name, *more, *(["--resume"] if how == BACK[1] else []), *self.options(name), out=out)

    def running(self):
        return [name for name in self.names if name in self.mesh.nodes and self.mesh.nodes[name].alive()]

    def front(self):
        """The furthest step of any node."""
        return max(self.mesh.step(name) for name in self.mesh.nodes)

    def until(self, step):
        self.mesh.wait(f"step {step}", lambda: not self.running() or self.front() >= step)
        time.sleep(self.random.random() * 0.02)  # waits for nothing: spreads the instants

    def some(self):
        """Some of those that run; nobody, if all have just ended."""
        names = self.running()
        return self.random.sample(names, self.random.randint(1, len(names))) if names else []

    def kill(self):
        victims = self.some()
        self.mesh.signal(signal.SIGKILL, *victims)
        for name in self.random.sample(victims, len(victims)):
            how = self.random.choice(BACK)
            self.start(name, how=how)
            self.said.append(f"killed {name}, back {how}")
            time.sleep(self.random.random() * 0.02)

    def stop(self):
        victims = self.some()
        self.mesh.signal(signal.SIGSTOP, *victims)
        time.sleep(self.random.choice([0.05, 0.3, 0.7]))  # the accident lasts so long
        self.mesh.signal(signal.SIGCONT, *victims)
        self.said.append(f"stopped {' '.join(victims)}")

    def join(self, name):
        self.start(name)
        self.said.append(f"{name} came late")

    def run(self, most=3):
        first = self.names[:]
        late = [first.pop()] if len(first) > 2 and self.random.random() < 0.4 else []
        for name in first:
            self.start(name, "--peers", str(len(first)))
        todo = [self.stop if self.random.random() < 0.4 else self.kill for _ in range(self.random.randint(1, most))]
        todo += [lambda name=name: self.join(name) for name in late]
        self.random.shuffle(todo)
        at = sorted(self.random.randint(3, self.steps * 3 // 4) for _ in todo)
        for step, accident in zip(at, todo):
            self.until(step)
            if accident in (self.kill, self.stop) and not self.running():
                continue
            self.said.append(f"at step {self.front()}:")
            accident()

    def finish(self):
        self.mesh.finish(self.names)
