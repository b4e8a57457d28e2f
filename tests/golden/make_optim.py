#!/usr/bin/python3
"""Write optim_torch.h: what PyTorch's optimizers and schedules make of the same numbers.

    /usr/bin/python3 tests/golden/make_optim.py > tests/golden/optim_torch.h

Parameters start at (i - 3.5) / 4; the gradient of step t, element i is a plain formula, see gradient()."""
import torch

COUNT, STEPS = 8, 5


def gradient(t):
    return torch.tensor([((7 * i + 3 * t * t + 5) % 11 - 5) / 8 for i in range(COUNT)])


CASES = [
    ("sgd", "OPTIM_SGD", dict(lr=0.1), torch.optim.SGD),
    ("sgd, decay", "OPTIM_SGD", dict(lr=0.1, weight_decay=0.05), torch.optim.SGD),
    ("momentum", "OPTIM_SGD", dict(lr=0.1, momentum=0.9), torch.optim.SGD),
    ("momentum, decay", "OPTIM_SGD", dict(lr=0.1, momentum=0.9, weight_decay=0.05), torch.optim.SGD),
    ("nesterov", "OPTIM_SGD", dict(lr=0.1, momentum=0.9, nesterov=True), torch.optim.SGD),
    ("nesterov, decay", "OPTIM_SGD", dict(lr=0.05, momentum=0.5, nesterov=True, weight_decay=0.1),
     torch.optim.SGD),
    ("adam", "OPTIM_ADAM", dict(lr=0.01), torch.optim.Adam),
    ("adam, decay", "OPTIM_ADAM", dict(lr=0.01, betas=(0.8, 0.95), weight_decay=0.1), torch.optim.Adam),
    ("adam, large epsilon", "OPTIM_ADAM", dict(lr=0.1, eps=0.5), torch.optim.Adam),
    ("adamw", "OPTIM_ADAMW", dict(lr=0.01), torch.optim.AdamW),
    ("adamw, decay", "OPTIM_ADAMW", dict(lr=0.1, weight_decay=0.3, eps=1e-3), torch.optim.AdamW),
    ("rmsprop", "OPTIM_RMSPROP", dict(lr=0.01), torch.optim.RMSprop),
    ("rmsprop, decay", "OPTIM_RMSPROP", dict(lr=0.1, alpha=0.8, eps=1e-3, weight_decay=0.1), torch.optim.RMSprop),
    ("rmsprop, momentum", "OPTIM_RMSPROP", dict(lr=0.02, momentum=0.9, weight_decay=0.05), torch.optim.RMSprop),
]


def run(make, options):
    p = torch.nn.Parameter(torch.tensor([(i - 3.5) / 4 for i in range(COUNT)]))
    optimizer = make([p], **options)
    for t in range(STEPS):
        p.grad = gradient(t)
        optimizer.step()
    return p.tolist()


def spec(kind, options):
    fields = [f".kind = {kind}", f".rate = {options['lr']}f"]
    if kind == "OPTIM_SGD":
        fields.append(f".momentum = {float(options.get('momentum', 0))}f")
        fields.append(f".nesterov = {str(options.get('nesterov', False)).lower()}")
    elif kind == "OPTIM_RMSPROP":
        fields += [f".momentum = {float(options.get('momentum', 0))}f", f".beta2 = {options.get('alpha', 0.99)}f",
                   f".epsilon = {options.get('eps', 1e-8)}f"]
    else:
        beta1, beta2 = options.get("betas", (0.9, 0.999))
        fields += [f".beta1 = {beta1}f", f".beta2 = {beta2}f",
                   f".epsilon = {options.get('eps', 1e-8)}f"]
    default = 0.01 if kind == "OPTIM_ADAMW" else 0.0
    fields.append(f".weight_decay = {options.get('weight_decay', default)}f")
    return ", ".join(fields)


def schedule(make):
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([p], lr=0.5)
    rule = make(optimizer)
    rates = []
    for _ in range(12):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        rule.step()
    return ", ".join(f"{r:.17g}" for r in rates)


print("/* Written by make_optim.py with PyTorch %s. */" % torch.__version__.split("+")[0])
print("/* clang-format off */")
print("enum { TORCH_COUNT = %d, TORCH_STEPS = %d };\n" % (COUNT, STEPS))
print("static const struct {")
print("    const char *name;\n    struct optim_spec spec;\n    float params[TORCH_COUNT];")
print("} torch_optim[] = {")
for name, kind, options, make in CASES:
    values = ", ".join(f"{v:.9g}f" if "." in f"{v:.9g}" or "e" in f"{v:.9g}" else f"{v:.1f}f"
                       for v in run(make, options))
    print(f'    {{"{name}", {{{spec(kind, options)}}},\n     {{{values}}}}},')
print("};\n")
sched = torch.optim.lr_scheduler
print("/* rate 0.5, 12 steps */")
print("static const double torch_cosine[] = {%s};"
      % schedule(lambda o: sched.CosineAnnealingLR(o, T_max=12, eta_min=0.05)))
print("static const double torch_step[] = {%s};"
      % schedule(lambda o: sched.StepLR(o, step_size=5, gamma=0.25)))
