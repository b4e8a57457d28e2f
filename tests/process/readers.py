"""readers.py - an independent reader, NumPy and pandas, of tables, arrays and folders that it makes itself.

    readers.py PROGRAM FOLDER

For each case: what `convert` writes (features and labels of both parts, in their order) and what `predict` prints for rows of a
file must be what is computed here from the file as pandas or NumPy read it."""
import csv
import io
import json
import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pandas as pd

from shuffled import SPLIT, shuffle, test_rows

PROGRAM, FOLDER = sys.argv[1:3]
GAPS = ['', '?', 'NA', 'N/A', 'n/a', '#N/A', '<NA>', 'NaN', 'nan', '-NaN', '-nan', 'NULL', 'null', 'None']
failed, count = [], 0


def run(*words, status=0):
    done = subprocess.run([PROGRAM, *words], capture_output=True, encoding='utf-8')
    assert done.returncode == status, f'{" ".join(words)}: status {done.returncode}: {done.stderr}'
    return done.stdout if status == 0 else done.stderr


def write(path, text):
    with open(path, 'wb') as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def equal(what, ours, wanted, far=0):
    ours, wanted = np.asarray(ours), np.asarray(wanted)
    assert ours.shape == wanted.shape, f'{what}: shape {ours.shape}, expected {wanted.shape}'
    if ours.size and far == 0:
        assert (ours == wanted).all(), f'{what}: {ours[ours != wanted][:4]}, expected {wanted[ours != wanted][:4]}'
    elif ours.size:
        assert (abs(ours - wanted) <= far * (1 + abs(wanted))).all(), f'{what}: differs by {abs(ours - wanted).max()}'


def case(make):
    """A function that checks one case in a folder of its own."""
    def inner(name, *args, **more):
        global count
        folder = os.path.join(FOLDER, name.replace(' ', '-'))
        os.mkdir(folder)
        count += 1
        try:
            make(folder, *args, **more)
        except (AssertionError, KeyError, ValueError, FileNotFoundError) as error:
            failed.append(f'{name}: {error}')
    return inner


def job(folder, data, model, train='', inputs=None):
    path = os.path.join(folder, 'job.yaml')
    write(path, f'data: {json.dumps(data)}\nmodel: {json.dumps(model)}\n'
                f'train: {{batch: 2, shards: 1, epochs: 1, optimizer: {{sgd: 0.001}}{train}}}\n')
    return path


def converted(folder, path):
    out = os.path.join(folder, 'out')
    run('convert', path, out, '--data', folder)
    return [np.load(os.path.join(out, name + '.npy')) for name in
            ('features', 'labels', 'test-features', 'test-labels')]


# --- tables ---

class Table:
    """What the columns of a data frame of texts become, found out with pandas."""

    def __init__(self, frame, label, ignored=(), missing='refuse', regression=False, standardise=False):
        gaps = frame.isin(GAPS)
        used = [c for c in frame.columns if c != label and c not in ignored]
        if missing == 'drop':
            keep = ~gaps[used + [label]].any(axis=1)
            frame, gaps = frame[keep].reset_index(drop=True), gaps[keep].reset_index(drop=True)
        self.used, self.label, self.fills = used, label, missing == 'mean'
        self.frame, self.gaps, self.test = frame, gaps, np.array(test_rows(len(frame)))
        self.words, self.mean, self.flag, self.scale = {}, {}, {}, {}
        for c in used:
            there, train = frame[c][~gaps[c]], ~self.test & ~gaps[c]
            if pd.to_numeric(there, errors='coerce').isna().any():
                self.words[c] = sorted(set(frame[c][train]), key=lambda w: w.encode())
            else:
                numbers = pd.to_numeric(frame[c][train]).astype(np.float32).astype(float)
                self.mean[c] = np.float32(numbers.mean())
            self.flag[c] = self.fills and bool((gaps[c] & ~self.test).any())
        if standardise:
            raw = self.features(frame[~self.test])
            for at, c in self.places():
                x = raw[:, at].astype(float)
                self.scale[at] = (x.mean(), 1 / x.std() if x.std() > 0 else 1)
        self.classes = None
        if not regression:
            self.classes = sorted(set(frame[label]), key=lambda v: (1, 0, v.encode()) if not number(v) else (0, float(v), b''))

    def places(self):
        """Of the numbers among the features."""
        at = 0
        for c in self.used:
            if c not in self.words:
                yield at, c
            at += (len(self.words[c]) if c in self.words else 1) + self.flag[c]

    def features(self, frame):
        columns = []
        for c in self.used:
            gap = frame[c].isin(GAPS).to_numpy()
            if c in self.words:
                columns += [(frame[c] == word).to_numpy().astype(np.float32) for word in self.words[c]]
            else:
                x = pd.to_numeric(frame[c].where(~frame[c].isin(GAPS), '0')).astype(np.float32).to_numpy()
                columns.append(np.where(gap, self.mean[c], x).astype(np.float32))
            if self.flag[c]:
                columns.append(gap.astype(np.float32))
        x = np.stack(columns, axis=1)
        for at, (mean, scale) in self.scale.items():
            x[:, at] = ((x[:, at].astype(float) - mean) * scale).astype(np.float32)
        return x

    def labels(self, frame):
        if self.classes is None:
            return pd.to_numeric(frame[self.label]).astype(np.float32).to_numpy()
        index = {v if not number(v) else float(v): i for i, v in enumerate(self.classes)}
        return np.array([index[v if not number(v) else float(v)] for v in frame[self.label]])


def number(text):
    try:
        float(text)
    except ValueError:
        return False
    return text not in GAPS


def one_hot(x, weights, bias):
    z = x.astype(float) @ weights.T.astype(float) + bias
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return z, e / e.sum(axis=1, keepdims=True)


def read_model(path):
    with open(path, 'rb') as file:
        raw = file.read()
    size, = struct.unpack('<Q', raw[:8])
    header = json.loads(raw[8:8 + size])
    metadata, out = header.pop('__metadata__'), {}
    for name, entry in header.items():
        begin, end = entry['data_offsets']
        out[name.rsplit('.', 1)[1]] = np.frombuffer(raw[8 + size + begin:8 + size + end], '<f4').reshape(entry['shape'])
    return out['weight'], out['bias'], metadata


def predicted(text):
    rows = list(csv.reader(io.StringIO(text)))
    return rows[0], rows[1:]


def check_predictions(folder, path, table, frame, classes):
    """`predict` without a file, and with rows in three forms: as they are, without unused columns, in another order."""
    model = os.path.join(folder, 'runs', 'model.safetensors')
    run('local', '-n', '1', path, '--quiet', '--set', 'mesh.gather_ms=0', '--out', os.path.join(folder, 'runs'), '--data', folder)
    found = [os.path.join(at, 'model.safetensors') for at, _, names in os.walk(os.path.join(folder, 'runs'))
             if 'model.safetensors' in names]
    weight, bias, metadata = read_model(found[0])
    model = found[0]

    def compare(what, text, x):
        head, rows = predicted(text)
        z, p = one_hot(x, weight, bias)
        first = head.index('class') + 1 if classes else head.index('y0')
        equal(what, np.array([[float(v) for v in row[first:]] for row in rows]), p if classes else z, 2e-5)
        if classes:
            sure = np.sort(p, axis=1)[:, -1] - np.sort(p, axis=1)[:, -2] > 1e-4
            said = [row[head.index('class')] for row in rows]
            wanted = [json.loads(metadata['classes'])[i] for i in p.argmax(axis=1)]
            assert all(a == b for a, b, s in zip(said, wanted, sure) if s), f'{what}: classes {said}, expected {wanted}'

    compare('predict', run('predict', path, model, '--data', folder), table.features(table.frame[table.test]))
    if classes:
        z, _ = one_hot(table.features(table.frame[table.test]), weight, bias)
        right = 100 * (z.argmax(axis=1) == table.labels(table.frame[table.test])).mean()
        said = run('eval', path, model, '--data', folder)
        assert f'accuracy {right:.2f} %' in said, f'eval: {said.strip()}, expected {right:.2f} %'
    rows = frame if table.fills else frame[~table.gaps[table.used].any(axis=1).reindex(frame.index, fill_value=True)] \
        if len(frame) == len(table.frame) else table.frame
    bare = rows.drop(columns=[table.label])
    for what, part in (('rows', bare), ('used', bare[table.used]), ('turned', bare[bare.columns[::-1]])):
        name = os.path.join(folder, what + '.csv')
        part.to_csv(name, index=False)
        compare(what, run('predict', path, model, name), table.features(part))


def check_torch(folder, path, table):
    """The program that check --python prints makes the same samples of rows."""
    import torch
    model = next(os.path.join(at, 'model.safetensors') for at, _, names in os.walk(os.path.join(folder, 'runs'))
                 if 'model.safetensors' in names)
    names = {}
    exec(run('check', path, '--python', model, '--data', folder), names)
    rows = table.frame.drop(columns=[table.label])
    for what, ours in (('dict', [names['features'](row) for row in rows.to_dict('records')]),
                       ('list', [names['features'](row) for row in rows.values.tolist()])):
        equal(f'features of a {what} in PyTorch', torch.stack(ours).numpy(), table.features(rows), 2e-6)


@case
def table_case(folder, text, target, frame=None, predict=True, **more):
    """`frame`: of texts; else pandas reads it from the text."""
    file = 't.csv'
    write(os.path.join(folder, file), text)
    options = {k: v for k, v in more.items() if k in ('header', 'missing', 'label', 'ignore', 'regression', 'standardise')}
    if frame is None:
        frame = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False, skipinitialspace=True)
    table = Table(frame, target, more.get('ignore', ()), more.get('missing', 'refuse'),
                  more.get('regression', False), more.get('standardise', False))
    regression = more.get('regression', False)
    outputs = 1 if regression else len(table.classes)
    path = job(folder, {'source': 'csv', 'file': file, **options}, [{'dense': outputs}],
               ', loss: squared_error' if regression else '')
    x, y, tx, ty = converted(folder, path)
    train, test = table.frame[~table.test], table.frame[table.test]
    far = 2e-6 if more.get('standardise') else 0
    equal('features', x, table.features(train), far)
    equal('test features', tx, table.features(test), far)
    equal('labels', y, table.labels(train))
    equal('test labels', ty, table.labels(test))
    if predict:
        check_predictions(folder, path, table, frame, not regression)
    if more.get('torch'):
        check_torch(folder, path, table)


@case
def refused(folder, text, expected, model=None, **options):
    name = options.pop('name', 't.csv')
    if text is not None:
        write(os.path.join(folder, name), text)
    data = {'source': 'csv', 'file': name, **options}
    said = run('check', job(folder, data, model or [{'dense': 2}]), '--data', folder, status=2)
    assert expected in said, f'{said.strip()}, expected {expected}'


def frame_of(rows, columns):
    return pd.DataFrame([[str(v) for v in row] for row in rows], columns=columns)


draw = np.random.default_rng(5)


def people(rows=60, gaps=0.0):
    """Words, numbers and an id, with missing cells."""
    words = ['Ulm', 'Bonn', 'Köln', 'Ä, so']
    frame = frame_of([[f'id{i}', words[draw.integers(4)], round(float(draw.normal(40, 9)), 2), 'fm'[draw.integers(2)],
                       draw.integers(0, 5), ('yes', 'no', 'perhaps')[draw.integers(3)]] for i in range(rows)],
                     ['id', 'town', 'age', 'sex', 'children', 'out'])
    for c, gap in (('town', ''), ('age', 'NA'), ('sex', '?'), ('children', '')):
        at = draw.random(rows) < gaps
        frame.loc[at, c] = gap
    return frame


def text_of(frame, **more):
    return frame.to_csv(index=False, **more)


def numbers(rows=40, columns=3, regression=False):
    x = draw.normal(0, 3, (rows, columns))
    y = x.sum(axis=1) if regression else np.array(['cat', 'dog', 'ant'])[draw.integers(0, 3, rows)]
    names = [f'x{i}' for i in range(columns)] + ['y']
    return frame_of([[*(f'{v:.5g}' for v in row), f'{t:.6g}' if regression else t] for row, t in zip(x, y)], names)


def tables():
    plain = numbers()
    table_case('numbers', text_of(plain), 'y')
    table_case('regression', text_of(numbers(regression=True)), 'y', regression=True)
    table_case('standardised', text_of(plain), 'y', standardise=True)
    table_case('semicolon', text_of(plain, sep=';'), 'y', plain)
    table_case('tab', text_of(plain, sep='\t'), 'y', plain)
    table_case('excel', 'sep=;\r\n' + text_of(plain, sep=';', lineterminator='\r\n'), 'y', plain)
    table_case('bom', '\ufeff' + text_of(plain, lineterminator='\r\n'), 'y', plain)
    table_case('quoted', text_of(plain, quoting=csv.QUOTE_ALL), 'y', plain)
    table_case('no header', text_of(plain, header=False), 'y', plain, predict=False)
    turned = plain.copy()
    turned.columns = ['0', '1', '2', 'label']
    table_case('pandas names', text_of(turned), 'label', turned)
    index = turned.reset_index().astype(str).rename(columns={'index': ''})
    table_case('pandas index', turned.to_csv(), 'label', index, predict=False)
    years = numbers(regression=True)
    years.columns = ['2019', '2020', '2021', '2022']
    table_case('years', text_of(years), '2022', years, regression=True)
    table_case('header yes', '7,3,5,1\n' + text_of(plain, header=False), '1',
               plain.set_axis(['7', '3', '5', '1'], axis=1), header='yes')
    table_case('header no', 'a,b,c,cat\nb,c,a,dog\n' * 10, 'y',
               frame_of([['a', 'b', 'c', 'cat'], ['b', 'c', 'a', 'dog']] * 10, ['p', 'q', 'r', 'y']), header='no', predict=False)
    words = frame_of([[('x', 's', 'n')[draw.integers(3)], ('e', 'p')[draw.integers(2)], ('t', 'f')[draw.integers(2)]]
                      for _ in range(40)], ['cap', 'bruises', 'kind'])
    table_case('mushrooms', text_of(words), 'kind', words)
    table_case('mushrooms without header', text_of(words, header=False), 'kind', words, predict=False)
    table_case('words', text_of(people()), 'out', ignore=['id'])
    table_case('words standardised', text_of(people()), 'out', ignore=['id'], standardise=True)
    table_case('gaps mean', text_of(people(80, 0.1)), 'out', ignore=['id'], missing='mean')
    table_case('gaps mean standardised', text_of(people(80, 0.1)), 'out', ignore=['id'], missing='mean', standardise=True,
               torch=True)
    table_case('gaps drop', text_of(people(80, 0.1)), 'out', ignore=['id'], missing='drop')
    table_case('label first', text_of(plain[['y', 'x0', 'x1', 'x2']]), 'y', label='y')
    table_case('label by number', text_of(plain[['x0', 'y', 'x1', 'x2']]), 'y', label='2')
    table_case('ignore by number', text_of(people()), 'out', ignore=['id'], label='out')
    table_case('numbers as classes', text_of(plain.assign(y=[str(v) for v in draw.choice([-1, 1, 10, 9], len(plain))])), 'y')
    odd = plain.assign(y=np.array(['5" pipe', 'say "hi"', 'a, b'])[draw.integers(0, 3, len(plain))])
    table_case('doubled quotes', text_of(odd), 'y', odd)
    umlaut = plain.assign(y=np.array(['Käse', 'Wein', '茶'])[draw.integers(0, 3, len(plain))])
    table_case('utf-8', text_of(umlaut), 'y', umlaut)
    doors = frame_of([[('2', '3', '4', '5more')[i % 4], ('a', 'b')[draw.integers(2)]] for i in range(60)], ['doors', 'kind'])
    table_case('numbers among words', text_of(doors), 'kind', doors)
    columns = numbers(40, 300)
    table_case('300 columns', text_of(columns), 'y', columns)
    named = plain.rename(columns={'x1': 'kind;color'})
    table_case('a semicolon in a name', text_of(named), 'y', named)
    quoted = 'x,k\n' + ''.join(f'{i},"{v}"\n' for i, v in enumerate(['NA', 'none', 'NA', 'none', 'none', 'NA'] * 4))
    table_case('quoted NA is a name', quoted, 'k', predict=False)


def pick(words, count=50):
    return [words[i] for i in draw.integers(0, len(words), count)]


def odd_tables():
    """Texts, numbers and labels as people have them."""
    plain, short = numbers(50), draw.normal(0, 1, 50)
    words = plain.assign(x0=pick(['Ulm, Donau', 'Bonn', '"Hi", he said', 'x;y']), y=pick(['row', 'label', 'p1', 'class']))
    table_case('quoted commas', text_of(words, lineterminator='\r\n'), 'y', words)
    tabs = words.assign(x1=pick(['a; b', 'c']))
    table_case('quoted tabs', text_of(tabs, sep='\t'), 'y', tabs)
    science = plain.assign(x0=[f'{v:.3e}' for v in short * 1e5], x1=[f'{v:.2E}' for v in short * 1e-9])
    table_case('scientific', text_of(science), 'y', science, standardise=True, torch=True)
    odd = plain.assign(x0=[f'+{abs(v):.2f}' for v in short], x1=[f'{abs(v) % 1:.3f}'[1:] for v in short],
                       x2=[f'{i:04d}.' for i in range(50)])
    table_case('odd numbers', text_of(odd), 'y', odd)
    flags = plain.assign(x0=pick(['True', 'False']), x1=pick(['0', '1']), x2=pick(['TRUE', 'true', 'no']), y=pick(['True', 'False']))
    table_case('booleans', text_of(flags), 'y', flags)
    huge = plain.assign(x0=[str(2**63 + i * 1000003) for i in range(50)], y=pick(['9007199254740993', '9007199254740995', '-7']))
    table_case('huge integers', text_of(huge), 'y', huge)
    table_case('empty lines', '\r\n' + text_of(plain, lineterminator='\r\n') + '\r\n\r\n', 'y', plain)
    table_case('blanks and BOM', '\ufeff' + text_of(plain).replace(',', ' , '), 'y', plain)
    table_case('label in the middle', text_of(plain[['x0', 'y', 'x1', 'x2']]), 'y', plain[['x0', 'y', 'x1', 'x2']], label='y')
    table_case('labels of all kinds', text_of(plain.assign(y=pick(['0.5', '10', '2.0', '-1', 'none', 'New  York']))), 'y')
    dates = plain.assign(x0=pick(['2020-01-01', '2020-02-01', '2021-03-05']), x1=pick(['12:30', '00:01']), x2=pick('😀😎🎉'))
    table_case('dates', text_of(dates), 'y', dates)
    target = numbers(50, regression=True).assign(c=pick(['a', 'b', 'c']))[['y', 'c', 'x0', 'x1', 'x2']]
    target.loc[draw.random(50) < 0.2, 'x1'] = '#N/A'
    table_case('regression with words and gaps', text_of(target), 'y', target, regression=True, label='y', missing='mean')
    named = plain.set_axis(['a, b', 'say "x"', 'ü', 'y'], axis=1)
    table_case('commas in names', text_of(named), 'y', named, standardise=True)
    many = frame_of([[f'c{i % 200}', f'{i * .01:.2f}', 'ab'[i % 2]] for i in range(600)], ['w', 'v', 'k'])
    table_case('200 categories', text_of(many), 'k', many)


def refusals():
    counts = ''.join(f'{a:.1f},{b:.1f},{i % 3}\n' for i, (a, b) in enumerate(draw.normal(0, 1, (20, 2))))
    refused('counts first', '20,2,a,b,c\n' + counts, 'line 2 (byte 11): 3 columns, expected 5 as in the first row, with a comma '
            'between them; if line 1 is no row of the table, take it out')
    refused('as many counts', '20,2,a\n' + counts, 'is the first row one of names? 20, 2, a; data.header: yes')
    refused('wavelengths', '400.5,410.5,420.5,kind\n' + ''.join(f'3,2,{i},{"ab"[i % 2]}\n' for i in (0, 1, 0, 1)),
            'is the first row one of names? 400.5, 410.5, ')
    refused('no labels', 'a,b,\n1,2,\n3,4,\n', 'the column of labels is empty: data.label chooses another one')
    refused('missing cell', 'x,y\n1,a\n,b\n3,a\n?,b\n', 't.csv: line 3, column 1 (byte 8): "", expected a number; '
            '2 of 4 rows have missing cells: data.missing: mean')
    for word in ('NaN', '?', 'NA', 'null'):
        refused(f'label {word.replace("?", "mark")}', f'x,y\n1,a\n2,{word}\n3,b\n',
                f'"{word}", expected a label; 1 of 3 rows have no label')
    refused('latin-1', 'x,y\n1,Käse\n2,Wein\n3,Käse\n'.encode('latin-1'), 'line 2 (byte 7): 0xe4 is not UTF-8')
    refused('one class', '1,a\n2,a\n3,a\n', 'the data has one class: a, expected at least 2')
    refused('blanks', ' 0.1 1 2\n 0.2 3 1\n', 'with a comma, a semicolon or a tab between them')
    refused('comment', '# by hand\nx,y\n1,a\n', 'its first line is a comment')
    refused('mac', 'x,y\r1,a\r2,b\r', 'lines end with CR alone')
    refused('id', 'id,x,y\n' + ''.join(f'u{i},{i},{"ab"[i % 2]}\n' for i in range(40)),
            'column 1 (id) has a different word in each row: it cannot become categories; data.ignore: [id] leaves it out')
    refused('either', '1,2,3,4\n5,3,1,2\n7,2,2,1\n', 'is the first row one of names? 1, 2, 3, 4; data.header: yes')
    refused('no such label', 'x,y\n1,a\n2,b\n', 'data.label = z: ', label='z')
    refused('decimal comma', 'x;y\n1,5;a\n2,5;b\n', 'expected a number with a decimal point')


# --- arrays and folders ---

@case
def array_case(folder, x, y, regression=False):
    np.save(os.path.join(folder, 'features.npy'), x)
    np.save(os.path.join(folder, 'labels.npy'), y)
    size = int(np.prod(x.shape[1:]))
    outputs = 1 if regression else int(y.max()) + 1
    data = {'source': 'npy', **({'regression': True} if regression else {})}
    path = job(folder, data, [{'dense': outputs}] if x.ndim < 3 else ['flatten', {'dense': outputs}],
               ', loss: squared_error' if regression else '')
    rows, test = len(x), min(max(int(0.2 * len(x) + 0.5), 1), len(x) - 1)
    order = [shuffle(1, SPLIT, i, rows) for i in range(rows)]
    want = x.astype(np.float32) if x.dtype != np.uint8 else x.astype(np.float32) * np.float32(1 / 255) - np.float32(0.5)
    tx, ty, sx, sy = converted(folder, path)
    far = 1e-6 if x.dtype == np.uint8 else 0
    equal('features', tx.reshape(-1, size), want[order[test:]].reshape(-1, size), far)
    equal('test features', sx.reshape(-1, size), want[order[:test]].reshape(-1, size), far)
    equal('labels', ty, y[order[test:]].astype(ty.dtype))
    equal('test labels', sy, y[order[:test]].astype(sy.dtype))


@case
def array_refused(folder, raw, expected, **options):
    if isinstance(raw, bytes):
        write(os.path.join(folder, 'features.npy'), raw)
    else:
        np.save(os.path.join(folder, 'features.npy'), raw)
    np.save(os.path.join(folder, 'labels.npy'), np.arange(12) % 2)
    said = run('check', job(folder, {'source': 'npy', **options}, [{'dense': 2}]), '--data', folder, status=2)
    assert expected in said, f'{said.strip()}, expected {expected}'


def arrays():
    y = draw.integers(0, 3, 30)
    x = draw.normal(0, 2, (30, 4))
    for name in ('<f4', '>f4', '<f8', '>f8'):
        array_case('array ' + name.replace('<', 'little ').replace('>', 'big '), x.astype(name), y)
    halves = np.arange(1 << 16, dtype='<u2').view('<f2')  # each that there is
    halves = halves[np.isfinite(halves)].reshape(-1, 32)
    for name in ('<f2', '>f2'):
        array_case('array ' + name.replace('<', 'little ').replace('>', 'big '), halves.astype(name), np.arange(len(halves)) % 3)
    for name in ('<i4', '>i8', '|u1', '<u2', '>u4', '<u8'):
        array_case('array ' + name.strip('<>|'), draw.integers(0, 250, (30, 4)).astype(name), y.astype('<i8'))
    for name in ('|i1', '<i2', '>i2', '<i4', '<i8'):
        array_case('array signed ' + name.strip('|').replace('>', 'big ').replace('<', 'little '),
                   draw.integers(-128, 128, (30, 4)).astype(name), y.astype('|i1'))
    array_case('array bool', draw.integers(0, 2, (30, 4)).astype(bool), (y > 0).astype('<u2'))
    array_case('array of bool labels', x, y > 0)
    array_refused('half infinite', np.full((12, 3), np.inf, '<f2'), 'row 0, element 0: inf, expected a finite float')
    array_case('array regression', x, x.sum(axis=1), regression=True)
    array_case('array of pictures', draw.integers(0, 255, (30, 3, 6, 6)).astype(np.uint8), y)
    array_case('array of grey pictures', draw.integers(0, 255, (30, 6, 6)).astype(np.uint8), y)
    array_refused('fortran', np.asfortranarray(draw.normal(0, 1, (12, 3))), 'save numpy.ascontiguousarray(x)')
    array_refused('no dimensions', np.float64(3), 'is one number without dimensions')
    array_refused('structured', np.zeros(12, dtype=[('a', '<f4'), ('b', '<f4')]), 'is a structured array')
    array_refused('pictures as a table', np.zeros((12, 3, 4, 4), np.float32), 'pictures go to data.train_images', file='features.npy')
    array_case_python2('python 2')
    channels_last('channels last')


@case
def array_case_python2(folder):
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (12L, 3L), }"
    head = text + ' ' * (118 - len(text) - 1) + '\n'
    x = draw.normal(0, 1, (12, 3)).astype('<f4')
    write(os.path.join(folder, 'features.npy'), b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + x.tobytes())
    np.save(os.path.join(folder, 'labels.npy'), np.arange(12) % 2)
    ours = converted(folder, job(folder, {'source': 'npy'}, [{'dense': 2}]))
    assert {row.tobytes() for row in np.concatenate([ours[0], ours[2]])} == {row.tobytes() for row in x}


@case
def channels_last(folder):
    np.save(os.path.join(folder, 'features.npy'), np.zeros((12, 8, 8, 3), np.uint8))
    np.save(os.path.join(folder, 'labels.npy'), np.arange(12) % 2)
    said = run('check', job(folder, {'source': 'npy'}, ['flatten', {'dense': 2}]), '--data', folder)
    assert '[12, 8, 8, 3] is read as 8 channels of 8x3' in said, said


def png(path, pixel):
    """8 bits, colours or grey, no filter."""
    height, width = pixel.shape[:2]

    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    rows = b''.join(b'\0' + pixel[i].tobytes() for i in range(height))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write(path, b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2 if pixel.ndim == 3 else 0, 0, 0, 0)) +
          chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))


def picture():
    return draw.integers(0, 256, (8, 8, 3)).astype(np.uint8)


@case
def folder_case(folder, parts, junk=()):
    """`parts`: folders of the training and the test part, or one for both."""
    known = [[], []]
    for part, root in enumerate(parts):
        for label, name in enumerate(('cat', 'dog')):
            for i in range(6):
                pixel = picture()
                png(os.path.join(folder, 'D', root, name, f'{i}.png'), pixel)
                known[part].append((label, np.moveaxis(pixel, 2, 0).astype(np.float32) * np.float32(1 / 255) - np.float32(0.5)))
    for path in junk:
        os.makedirs(os.path.join(folder, 'D', path))
    path = job(folder, {'source': 'images', 'size': 8}, ['flatten', {'dense': 2}])
    out = os.path.join(folder, 'out')
    run('convert', path, out, '--data', os.path.join(folder, 'D'))
    arrays = [np.load(os.path.join(out, name + '.npy')) for name in ('features', 'labels', 'test-features', 'test-labels')]
    ours = [list(zip(arrays[0], arrays[1])), list(zip(arrays[2], arrays[3]))]
    if len(parts) == 1:
        ours, known = [ours[0] + ours[1]], known[:1]
    for got, wanted in zip(ours, known):
        assert len(got) == len(wanted), f'{len(got)} pictures, expected {len(wanted)}'
        for x, label in got:
            near = [y for y, w in wanted if abs(w - x).max() < 1e-6]
            assert near == [label], f'a picture of class {label} is not among the files of {near}'


@case
def broken_pictures(folder):
    for i in range(4):
        png(os.path.join(folder, 'D', 'cat', f'{i}.png'), picture())
    for name in ('cat/1.png', 'cat/3.png'):
        write(os.path.join(folder, 'D', name), b'P')
    said = run('check', job(folder, {'source': 'images', 'size': 8}, ['flatten', {'dense': 2}]), '--data',
               os.path.join(folder, 'D'), status=2)
    assert 'cat/1.png' in said and '; 1 other file cannot be read: ' in said and 'cat/3.png' in said, said


def folders():
    folder_case('folder', [''])
    folder_case('folder with what a Mac adds', [''], junk=['__MACOSX/cat'])
    for name in ('test', 'val', 'valid', 'validation'):
        folder_case('folder of ' + name, ['train', name], junk=['__MACOSX/train'])
    broken_pictures('broken pictures')


tables()
odd_tables()
refusals()
arrays()
folders()
print(f'{count} tables, arrays and folders, {len(failed)} of them read otherwise')
for line in failed:
    print(line)
sys.exit(bool(failed) or count < 40)
