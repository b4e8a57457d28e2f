#!/usr/bin/env python3
"""structure.py [OBJECTS] [--write] - are the houses of the product, and their rooms, as they are meant to be?

It reads the sources; with OBJECTS, the folder of mesh/core's objects, it also looks at what these use. It refuses, with
the name of the offender, in each house (mesh/core, mesh/net, nn, node):
  - a call or an include upwards, or sideways: the rooms are the folders, each on its storey (HOUSES; pipeline, which the
    group asks, has half a one). A function that is only named (in a table, a macro) counts as called. Inline functions
    count as all others; those of the headers for all (SHARED) count for whoever calls them;
  - a function longer than LONGEST lines;
  - files that call, through others, themselves: in mesh/core they count;
  - a function that no other file uses and that is not static (where there are objects: what is built);
and in mesh/core:
  - a write to a record of another folder, also through a pointer in it (core->gossip->x = 1), and a pointer to struct core
    that is not const, but in CONDUCTORS;
  - a function name, static ones too, that more than NAMES product files define: name it after its file or what it does;
  - a file that asserts nothing;
  - a symbol that reads a clock, opens a socket, starts a thread, or allocates after the start (by the objects).

And it refuses when the sum rises. The sum counts, with weights in the code of `main`:
  calls      pairs of files of mesh/core of which one names a function of the other
  jumped     storeys between the two, in each such pair
  circles    files that call, through others, themselves
  headers    each ten lines of a header of mesh/core beyond a hundred
  writes     pairs of a file and a record in the header of another part of the same folder, to which it writes
  names      product files beyond the first that define the same function name
structure.sum has the sum, and MEASURE, which is another one when more is counted. When the sum has fallen, `make layers`
(--write) writes it there. Where git is, no commit may hold more than any commit before of the same measure.

Measure 2: the inline functions of internal.h, which were counted for nobody, are functions of the parts that they ask.
Measure 3: x_y.c, which is another part than x.c, is counted when it writes to a record of x.h."""
import collections, glob, math, os, re, subprocess, sys

HOUSES = {
    'mesh/core': {'sessions': 1, 'pipeline': 1.5, 'group': 2, 'transfer': 3, 'rounds': 4, 'gossip': 4, 'core': 5},
    'mesh/net': {'net': 1},
    'nn': {'arithmetic': 1, 'layers': 2, 'nn': 3, 'files': 4, 'data': 5},
    'node': {'base': 1, 'job': 2, 'results': 3, 'train': 4, 'commands': 5, 'cli': 6},
}
SHARED = {'core', 'internal', 'engine', 'nn'}  # headers for all of a house: the interface, the record, the engines' table
CONDUCTORS = {'core', 'rounds', 'rounds_act', 'gossip_engine'}  # they have struct core to change
VALUES = {'awake', 'wall'}                                              # a write to one is a write to what it is in
ALLOCATES = {'core', 'collective', 'transfer', 'fetch', 'rounds_act', 'gossip_engine', 'handover'}  # at the start only
PURE = set('__popcountdi2 memcpy memset memmove memcmp strlen strnlen strcmp strchr snprintf vsnprintf __snprintf_chk '
           '__vsnprintf_chk __assert_fail __stack_chk_fail _GLOBAL_OFFSET_TABLE_ XXH3_64bits_withSeed XXH3_64bits'.split())
NAMES, LONGEST = 3, 60
PRODUCT = 'node', 'mesh', 'nn', 'proto', 'compress'
FOR_LIBRARIES = 'node/cli/static.c'  # libraries call what it has
GENERATED = {'SIMD_NAME'}  # names that a macro makes: one variant per instruction set
SUM, MEASURE = 'tests/support/structure.sum', '3'

DEFINITION = re.compile(r'^(?P<type>[^\n#;{}=]*)\n(?P<name>[a-z]\w*|SIMD_NAME)\((?P<args>[^;{}]*)\)\n\{\n(?P<body>.*?)^\}', re.M | re.S)
INDEX = r'\[(?:[^\[\]]|\[[^\[\]]*\])*\]'
PATH = rf'([a-z_]\w*)((?:{INDEX})*(?:(?:->|\.)\w+(?:{INDEX})*)+)'
WRITE = re.compile(rf'(?<![\w.>])(?:(?:\+\+|--){PATH}|{PATH}\s*(?:=(?!=)|[-+*/|&^]=|<<=|>>=|\+\+|--)|mem(?:set|cpy|move)\(&?{PATH}\s*,)')
bad = []


def refuse(line):
    bad.append(line)


def without_comments(text):
    """Comments, strings and characters are emptied; lines stay where they are."""
    def empty(match):
        return re.sub(r'[^\n]', ' ', match[0]) if match[0][0] == '/' else match[0][0] * 2
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', empty, text, flags=re.S)


class Source:
    def __init__(self, path, house):
        self.path, self.house = path, house
        self.part = os.path.basename(path)[:-2]  # x.c and x.h are one part
        self.folder = os.path.basename(os.path.dirname(path))
        self.text = without_comments(open(path).read())
        self.functions = list(DEFINITION.finditer(self.text))
        self.static = {m['name'] for m in self.functions if re.search('static|INLINE', m['type']) and path.endswith('.c')}

    def storey(self):
        return HOUSES[self.house][self.folder]

    def shared(self):
        return self.path.endswith('.h') and self.folder == os.path.basename(self.house) and self.part in SHARED

    def named(self):
        """What is named in bodies, tables and macros. A member (x.name, x->name) and a struct are no function."""
        code = [m['body'] for m in self.functions] + re.findall(r'= \{.*?^\};', self.text, re.M | re.S)
        code += re.findall(r'^#define(?:.*\\\n)*.*', self.text, re.M)
        return set(re.findall(r'(?<![.>\w])(?<!struct )(?<!enum )[a-z_]\w+\b', '\n'.join(code)))


def check_calls(sources):
    """The pairs of parts of which one names a function of the other."""
    owner, inlines = {}, {}
    for s in sources:
        for m in s.functions:
            if m['name'] not in s.static:
                owner[m['name']] = s
                if s.shared():
                    inlines[m['name']] = set(re.findall(r'(?<![.>\w])(?<!struct )(?<!enum )[a-z_]\w+\b', m['body']))
    calls = {}
    for s in sources:
        if s.shared():
            continue
        named, todo = set(), list(s.named() - s.static)
        while todo:
            name = todo.pop()
            if name not in named:
                named.add(name)
                todo += inlines.get(name, ())
        for name in sorted(named & set(owner)):
            other = owner[name]
            if other.part == s.part or other.shared():
                continue
            calls.setdefault((s.part, other.part), []).append(name)
            if s.folder != other.folder and s.storey() <= other.storey():
                refuse(f'{s.path} calls upwards: {name} of {other.path}')
    return calls


def circle(calls):
    """The files that reach themselves."""
    reach = collections.defaultdict(set)
    for a, b in calls:
        reach[a].add(b)
    for _ in range(8):  # paths of up to 2^8 calls
        for a in list(reach):
            reach[a] |= set().union(*(reach[b] for b in list(reach[a]) if b in reach))
    return {a for a in reach if a in reach[a]}


def check_writes(sources):
    """Who writes to which record: by the types of parameters, variables and members. Returns the pairs within a folder."""
    members, home = {}, {}
    for s in sources:
        for m in re.finditer(r'struct (\w+) \{\n(.*?)\n\s*\}(?: \w+(?:\[[^\]]*\])*)?;', s.text, re.S):
            if s.path.endswith('.h'):
                home[m[1]] = s
                members[m[1]] = {word.group(1): d[1] for d in re.finditer(r'(?:struct (\w+)|\w+)\s+([^;{}()]*);', m[2])
                                 for word in (re.match(r'\s*\*?\s*(?:const )?(\w+)', n) for n in d[2].split(',')) if word}
    records, todo = set(), ['core']
    while todo:  # what struct core holds
        record = todo.pop()
        if record in members and record not in records:
            records.add(record)
            todo += [inner for inner in members[record].values() if inner]
    near = set()
    for s in sources:
        for m in s.functions:
            types = {d[2]: d[1] for d in re.finditer(r'struct (\w+)\s+\**\s*(?:const )?(\w+)', m['args'] + ';' + m['body'])}
            for d in re.finditer(r'struct (\w+)\s+([^;()]*);', m['body']):
                types.update({n: types.get(n, d[1]) for n in re.findall(r',\s*\*(\w+)', d[2])})
            for w in WRITE.finditer(m['body']):
                base, path = next((w[i], w[i + 1]) for i in (1, 3, 5) if w[i])
                record, last = types.get(base), None
                for name in re.findall(r'(?:->|\.)(\w+)', re.sub(INDEX, '', path))[:-1]:
                    inner = members.get(record, {}).get(name)
                    if inner in VALUES:
                        break
                    record = inner
                if record not in records or record in VALUES:
                    continue
                its = home[record]
                if s.folder != its.folder and not (s.part in CONDUCTORS and its.shared()):
                    refuse(f'{s.path} writes to a record of another part, struct {record} of {its.path}: {m["name"]}: {w[0].strip()}')
                elif s.part != its.part and not its.shared():
                    near.add((s.part, record))
    return near


def read_house(house):
    sources = [Source(path, house) for path in sorted(glob.glob(f'{house}/**/*.[ch]', recursive=True))]
    for s in sources:
        if s.folder not in HOUSES[house]:
            refuse(f'{s.path}: its folder is no storey: structure.py lists them')
    return [s for s in sources if s.folder in HOUSES[house]]


def check_sources(sources, house):
    for s in sources:
        if s.shared():
            continue
        for folder, part in re.findall(rf'^#include "{house}/(?:(\w+)/)?(\w+)\.h"', open(s.path).read(), re.M):
            folder = folder or os.path.basename(house)
            if part not in SHARED and folder != s.folder and HOUSES[house].get(folder, 0) >= s.storey():
                refuse(f'{s.path} includes upwards: {part}.h')
        for m in s.functions:
            if m['body'].count('\n') + 3 > LONGEST:
                refuse(f'{s.path}: {m["name"]} has {m["body"].count(chr(10)) + 3} lines, more than {LONGEST}')


def check_core(sources):
    for s in sources:
        if s.path.endswith('.c') and 'assert(' not in s.text and not s.part.endswith('_simd'):
            refuse(f'{s.path} asserts nothing')
        for line in re.findall(r'^.*(?<!const )struct core \*(?!\*).*$', s.text, re.M):
            if s.part not in CONDUCTORS and not s.shared():
                refuse(f'{s.path} may write to the record of another part: {line.strip()}')
    parts = {s.part for s in sources}
    for name in CONDUCTORS | (SHARED - {'nn'}) | ALLOCATES:
        if name not in parts:
            refuse(f'structure.py names {name}, of which mesh/core has no file')


def check_names():
    """In all of the product."""
    defined = collections.defaultdict(set)
    for room in PRODUCT:
        for path in glob.glob(f'{room}/**/*.[ch]', recursive=True):
            for m in DEFINITION.finditer(without_comments(open(path).read())):
                defined[m['name']].add(path)
    for name, paths in sorted(defined.items()):
        if len(paths) > NAMES and name not in GENERATED:
            refuse(f'{len(paths)} files define {name}, expected at most {NAMES}: {" ".join(sorted(paths))}')
    return sum(len(paths) - 1 for name, paths in defined.items() if name not in GENERATED)


def symbols(objects):
    defined, used = {}, collections.defaultdict(set)
    for path in objects:
        name = os.path.basename(path).split('.')[0]
        for line in subprocess.check_output(['nm', '-g', path], text=True).splitlines():
            *_, kind, symbol = line.split()
            if kind == 'U':
                used[name].add(symbol)
            else:
                defined[symbol] = name
    return defined, used


def check_objects(objects):
    """What mesh/core uses from outside; proto and compress are pure by the rules of their own folders."""
    root = os.path.dirname(os.path.dirname(objects))
    paths = [path for path in glob.glob(f'{objects}/**/*.o', recursive=True) if not path.endswith('.mutant.o') and
             glob.glob(f'mesh/core/**/{os.path.basename(path).split(".")[0]}.c', recursive=True)]
    defined, used = symbols(paths)
    known = PURE | set(defined) | set(symbols(glob.glob(f'{root}/proto/*.o') + glob.glob(f'{root}/compress/*.o'))[0])
    for name in sorted(used):
        for symbol in sorted(used[name] - known):
            if symbol in ('calloc', 'malloc', 'free'):
                if name not in ALLOCATES:
                    refuse(f'mesh/core/{name}.c allocates: {symbol}')
            elif not symbol.startswith(('__asan', '__ubsan', '__tsan', '__sanitizer')):
                refuse(f'mesh/core/{name}.c is not pure: it uses {symbol}')


def check_static(houses):
    """What no other file names needs no name for them."""
    in_sources, in_headers = collections.Counter(), collections.Counter()
    for folder in PRODUCT + ('tests',):
        for path in glob.glob(f'{folder}/**/*.[ch]', recursive=True):
            words = re.findall(r'\w+', open(path).read())
            in_sources.update(set(words) if path.endswith('.c') else ())
            in_headers.update(words if path.endswith('.h') else ())
    for s in sum((sources for sources, calls in houses.values()), []):
        for m in s.functions if s.path != FOR_LIBRARIES else []:
            name = m['name']
            if s.path.endswith('.c') and name not in s.static | GENERATED and in_sources[name] < 2 and in_headers[name] < 2:
                refuse(f'{s.path}: nobody else uses {name}: static')  # one is its declaration


def check_sum(total, write):
    if not os.path.exists(SUM):
        return refuse(f'{SUM} is missing: it holds the sum, {total}')
    read = lambda text: (text.split() + ['1'])[:2]
    allowed, measure = read(open(SUM).read())
    if measure != MEASURE:
        return refuse(f'{SUM} is of measure {measure}, expected {MEASURE}: what it counts is another thing now, write "{total} {MEASURE}"')
    allowed = int(allowed)
    try:
        git = lambda *words: subprocess.check_output(['git', *words], text=True, stderr=subprocess.DEVNULL)
        held = [read(git('show', f'{commit}:{SUM}')) for commit in git('log', '--diff-filter=AM', '--format=%H', '--', SUM).split()]
        before = [int(sum) for sum, measure in held if measure == MEASURE]
    except (OSError, subprocess.CalledProcessError):
        before = []  # no git, or no repository
    if before and allowed > min(before):
        refuse(f'{SUM} says {allowed}, a commit before has {min(before)}: the sum may only fall')
    if total > allowed:
        refuse(f'mesh/core: the sum has risen from {allowed} to {total}: take something away. What it counts is in structure.py')
    elif total < allowed and write:
        open(SUM, 'w').write(f'{total} {MEASURE}\n')
        print(f'  the sum has fallen from {allowed} to {total}: commit {SUM}')


def say_lines(houses):
    """Lines of each room; then of the product."""
    count = lambda path: open(path).read().count('\n')
    for house, (sources, calls) in houses.items():
        rooms = collections.Counter()
        for s in sources:
            rooms[s.folder] += count(s.path)
        print(f'{house}: {sum(rooms.values())} lines, {len(circle(set(calls)))} files in circles' +
              (': ' + ', '.join(f'{room} {rooms[room]}' for room in HOUSES[house]) if len(rooms) > 1 else ''))
    paths = [path for room in PRODUCT for path in glob.glob(f'{room}/**/*.[ch]', recursive=True)]
    print(f'{", ".join(PRODUCT)}: {sum(map(count, paths))} lines')


def main():
    objects = next((word for word in sys.argv[1:] if word != '--write'), None)
    houses = {}
    for house in HOUSES:
        sources = read_house(house)
        check_sources(sources, house)
        houses[house] = sources, check_calls(sources)
        if house != 'mesh/core' and circle(set(houses[house][1])):
            refuse(f'{house}: files that call, through others, themselves: {", ".join(sorted(circle(set(houses[house][1]))))}')
    sources, calls = houses['mesh/core']
    check_core(sources)
    storey = {s.part: s.storey() for s in sources}
    parts = {
        'calls': len(calls),
        'jumped': sum(max(0, math.ceil(storey[a]) - math.ceil(storey[b]) - 1) for a, b in calls),
        'circles': len(circle(set(calls))),
        'headers': sum(max(0, open(s.path).read().count('\n') - 100) // 10 for s in sources if s.path.endswith('.h')),
        'writes': len(check_writes(sources)),
        'names': check_names(),
    }
    if objects:
        check_objects(objects)
        check_static(houses)
    total = sum(parts.values())
    say_lines(houses)
    print(f'mesh/core: the sum is {total}: ' + ', '.join(f'{name} {n}' for name, n in parts.items()))
    check_sum(total, '--write' in sys.argv)
    for line in bad:
        print(f'layers: {line}', file=sys.stderr)
    return 1 if bad else 0


sys.exit(main())
