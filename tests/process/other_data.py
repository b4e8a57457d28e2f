"""other_data.py - what eval and predict make of data that a model did not learn from, computed by NumPy from the same numbers.

    other_data.py PROGRAM FOLDER

Models of one dense layer learn from tables and arrays. Then the same numbers come in other files and types, in tables that have
grown, with fewer classes or in another order: outputs, loss and accuracy must be those of the weights and the scaling in the
model's file, or there must be a refusal."""
import json
import os
import struct
import subprocess
import sys

import numpy as np

from shuffled import test_rows

PROGRAM, FOLDER = sys.argv[1:3]
failed, count = [], 0
draw = np.random.default_rng(7)


def run(*words, status=0):
    done = subprocess.run([PROGRAM, *words], capture_output=True, encoding='utf-8')
    assert done.returncode == status, f'{" ".join(words)}: status {done.returncode}: {done.stderr}{done.stdout}'
    return done.stdout if status == 0 else done.stderr


class Model:
    """A model's file: weights, and how it says that raw numbers become what it reads."""

    def __init__(self, path):
        raw = open(path, 'rb').read()
        length, = struct.unpack('<Q', raw[:8])
        header = json.loads(raw[8:8 + length])
        self.path, self.note = path, header.pop('__metadata__')
        for name, entry in header.items():
            begin, end = entry['data_offsets']
            x = np.frombuffer(raw[8 + length + begin:8 + length + end], '<f4').reshape(entry['shape'])
            setattr(self, name.split('.')[-1], x.astype(float))
        self.classes = json.loads(self.note['classes']) if 'classes' in self.note else None

    def features(self, raw):
        x = np.asarray(raw, float).reshape(len(raw), -1)
        if 'mean' in self.note:
            x = (x - json.loads(self.note['mean'])) * json.loads(self.note['scale'])
        if 'norm' in self.note:
            (scale, shift), = json.loads(self.note['norm'])
            x = x * scale + shift
        return x

    def outputs(self, x):
        z = x @ self.weight.T + self.bias
        if self.classes is None:
            return z
        p = np.exp(z - z.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True)


def case(name, check, *args):
    global count
    count += 1
    try:
        check(*args)
    except (AssertionError, KeyError, ValueError) as error:
        failed.append(f'{name}: {error}')


def near(what, ours, wanted):
    ours, wanted = np.asarray(ours, float), np.asarray(wanted, float)
    assert ours.shape == wanted.shape, f'{what}: {ours.shape} numbers, expected {wanted.shape}'
    far = abs(ours - wanted).max()
    assert far < 2e-5 * (1 + abs(wanted).max()), f'{what}: differs by {far}'


def numbers(text):
    """The columns of probabilities or outputs of what predict prints."""
    lines = [line.split(',') for line in text.splitlines()]
    last = [i for i, name in enumerate(lines[0]) if name not in ('row', 'label', 'class', 'target0')]
    return np.array([[float(line[i]) for i in last] for line in lines[1:]]), lines


def table(path, x, labels=None, header=True):
    with open(path, 'w') as file:
        if header:
            file.write(','.join([f'x{i}' for i in range(x.shape[1])] + ['kind'] * (labels is not None)) + '\n')
        for i, row in enumerate(x):
            file.write(','.join([repr(v.item()) for v in row] + ([str(labels[i])] if labels is not None else [])) + '\n')


def train(name, data, model, more=''):
    folder = os.path.join(FOLDER, name)
    path = os.path.join(folder, 'job.yaml')
    with open(path, 'w') as file:
        file.write(f'data: {json.dumps(data)}\nmodel: {json.dumps(model)}\n'
                   f'train: {{batch: 20, shards: 2, epochs: 8, optimizer: {{adam: 0.02}}{more}}}\n'
                   f'mesh: {{group: {name}}}\n')
    run('local', '-n', '1', path, '--data', folder, '--out', os.path.join(folder, 'out'), '--quiet')
    return path, Model(os.path.join(folder, 'out', 'node-1', 'model.safetensors'))


def predicts(path, model, file, raw, *more):
    ours, lines = numbers(run('predict', path, model.path, file, *more))
    wanted = model.outputs(model.features(raw) if '--scaled' not in more else np.asarray(raw, float).reshape(len(raw), -1))
    near('outputs', ours, wanted)
    if model.classes:
        names = [model.classes[k] for k in ours.argmax(1)]
        assert [line[1] for line in lines[1:]] == names, 'other classes than the largest outputs'


def refuses(words, *command):
    said = run(*command, status=2)
    assert words in said and said.count('\n') == 1, f'says {said!r}, expected {words!r}'


def rows_of_files(name, path, model, raw):
    """Whole numbers 0..255, in every file that can hold them."""
    folder = os.path.join(FOLDER, name)
    for kind in ('<u1', '<i4', '>i4', '<i8', '<f4', '<f8', '>f8'):
        file = os.path.join(folder, 'rows-' + kind.replace('<', 'l').replace('>', 'b') + '.npy')
        np.save(file, raw.astype(kind))
        case(f'{name}: rows as {kind}', predicts, path, model, file, raw)
    flat = raw.reshape(len(raw), -1)
    for header in (True, False):
        file = os.path.join(folder, f'rows-{header}.csv')
        table(file, flat, header=header)
        case(f'{name}: rows as csv, header {header}', predicts, path, model, file, raw)


def evaluates(path, model, x, classes, *more):
    """x, classes: the test part, as it is in the files."""
    p = model.outputs(model.features(x))
    label = [model.classes.index(str(c)) for c in classes]
    loss, right = -np.log(p[np.arange(len(p)), label]).mean(), (p.argmax(1) == label).mean()
    said = run('eval', path, model.path, *more)
    words = said.replace(',', '').split()
    assert int(words[2]) == len(p), said
    assert abs(float(words[4]) - loss) < 2e-5 * (1 + loss), f'{said}, expected loss {loss}'
    assert abs(float(words[6]) - 100 * right) < 0.006, f'{said}, expected accuracy {100 * right}'


def kinds(rows, far=0):
    """Bytes in three groups."""
    k = draw.integers(0, 3, rows)
    x = np.clip(np.stack([60 * k + 20, 200 - 70 * k, 30 + 0 * k], 1) + draw.integers(-25, 26, (rows, 3)) + far, 0, 255)
    return x, k


def tables(standardise):
    name = 'table-' + standardise
    folder = os.path.join(FOLDER, name)
    os.mkdir(folder)
    x, k = kinds(300)
    names = np.array(['ant', 'bee', 'cat'])
    table(os.path.join(folder, 'd.csv'), x, names[k])
    path, model = train(name, {'source': 'csv', 'file': 'd.csv', 'standardise': standardise}, [{'dense': 3}])
    rows_of_files(name, path, model, x[:20])
    fractions = x[:20] + 0.25
    np.save(os.path.join(folder, 'fractions.npy'), fractions)
    case(name + ': fractions', predicts, path, model, os.path.join(folder, 'fractions.npy'), fractions)

    def others(what, x, labels):
        table(os.path.join(folder, what + '.csv'), x, labels)
        test = np.array(test_rows(len(x)))
        case(f'{name}: eval, {what}', evaluates, path, model, x[test], labels[test], '--data', folder, '--set', f'data.file={what}.csv')
    others('same', x, names[k])
    more, l = kinds(200, far=150)
    others('grown', np.concatenate([x, more]), names[np.concatenate([k, l])])
    others('another', *(lambda x, k: (x, names[k]))(*kinds(90)))
    others('two', x[k != 0], names[k[k != 0]])
    others('one', x[k == 2], names[k[k == 2]])
    others('small', x[:12], names[k[:12]])
    table(os.path.join(folder, 'wrong.csv'), x, np.array(['ant', 'bee', 'cow'])[k])
    row = int(np.argmax(k == 2)) + 2
    case(name + ': another class', refuses, f'line {row}, column 4', 'eval', path, model.path, '--data', folder, '--set',
         'data.file=wrong.csv')
    out = os.path.join(folder, 'arrays')
    run('convert', path, out, '--data', folder)
    file = os.path.join(out, 'test-features.npy')
    if standardise == 'yes':
        case(name + ': converted', refuses, '--scaled', 'predict', path, model.path, file)
        case(name + ': converted, scaled', predicts, path, model, file, np.load(file), '--scaled')
    else:
        case(name + ': converted', predicts, path, model, file, np.load(file))


def bytes_of_arrays(kind):
    name = 'bytes-' + kind
    folder = os.path.join(FOLDER, name)
    os.mkdir(folder)
    x, k = kinds(300)
    x = np.concatenate([x, x[:, :1]], 1).reshape(-1, 1, 2, 2)
    if kind == 'idx':
        for part, s in (('train', slice(0, 240)), ('t10k', slice(240, 300))):
            with open(os.path.join(folder, part + '-images-idx3-ubyte'), 'wb') as file:
                file.write(struct.pack('>IIII', 0x803, len(x[s]), 2, 2) + x[s].astype('u1').tobytes())
            with open(os.path.join(folder, part + '-labels-idx1-ubyte'), 'wb') as file:
                file.write(struct.pack('>II', 0x801, len(x[s])) + k[s].astype('u1').tobytes())
        data = {'source': 'idx'}
    else:
        for array, labels, s in (('features', 'labels', slice(0, 240)), ('test-features', 'test-labels', slice(240, 300))):
            np.save(os.path.join(folder, array + '.npy'), x[s].astype(kind))
            np.save(os.path.join(folder, labels + '.npy'), k[s])
        data = {'source': 'npy', 'test_images': 'test-features.npy', 'test_labels': 'test-labels.npy'}
    path, model = train(name, data, ['flatten', {'dense': 3}])
    rows_of_files(name, path, model, x[:20])
    case(name + ': eval', evaluates, path, model, x[240:], k[240:], '--data', folder)
    for other in ('<u1', '<i8', '<f4'):
        to = os.path.join(folder, 'as-' + other[1:])
        os.mkdir(to)
        np.save(os.path.join(to, 'features.npy'), x[:30].astype(other))
        np.save(os.path.join(to, 'labels.npy'), k[:30])
        few = k[240:] != 1
        np.save(os.path.join(to, 'test-features.npy'), x[240:][few].astype(other))
        np.save(os.path.join(to, 'test-labels.npy'), k[240:][few])
        case(f'{name}: eval of {other}, two classes', evaluates, path, model, x[240:][few], k[240:][few], '--data', to, '--set',
             'data.source=npy', '--set', 'data.test_images=test-features.npy', '--set', 'data.test_labels=test-labels.npy')
    if kind in ('idx', 'u1'):
        scaled = os.path.join(folder, 'scaled.npy')
        np.save(scaled, (x[:9] / 255 - 0.5).astype('f4'))
        case(name + ': scaled', refuses, 'expected whole numbers 0..255', 'predict', path, model.path, scaled)
        case(name + ': scaled, said', predicts, path, model, scaled, np.load(scaled), '--scaled')


def regression():
    folder = os.path.join(FOLDER, 'number')
    os.mkdir(folder)
    x = draw.integers(0, 256, (200, 3))
    table(os.path.join(folder, 'd.csv'), x, x @ [0.5, -1.5, 0.25] + 40)
    path, model = train('number', {'source': 'csv', 'file': 'd.csv', 'standardise': 'yes', 'regression': 'yes'}, [{'dense': 1}],
                        ', loss: squared_error')
    rows_of_files('number', path, model, x[:20])


tables('yes')
tables('no')
bytes_of_arrays('idx')
bytes_of_arrays('u1')
bytes_of_arrays('f8')
bytes_of_arrays('i8')
regression()
print(f'{count} files for models of other data, {len(failed)} of them used otherwise')
for line in failed:
    print(line)
sys.exit(bool(failed) or count < 40)
