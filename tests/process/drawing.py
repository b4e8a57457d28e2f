"""Is what --timeline draws a step? Each piece once, in the row of its node, after what it needs, and no node does two at a time."""
import collections
import re
import xml.etree.ElementTree as xml

SVG = '{http://www.w3.org/2000/svg}'
KINDS = ['forward', 'back', 'gradient of input', 'gradient of weights', 'tail']
SLACK_MS = 0.0005


def boxes(root):
    """(kind, stage, shard, begin, end, y, x, width) of each piece."""
    for box in root.iter(SVG + 'rect'):
        title = box.find(SVG + 'title')
        if title is not None:
            kind, stage, shard, begin, end = re.fullmatch(
                r'([a-z ]*)(?:, stage (\d+), shard (\d+))?: ([\d.]+) to ([\d.]+) ms', title.text).groups()
            yield (kind, int(stage or 1) - 1, int(shard or 0), float(begin), float(end), box.get('y'), float(box.get('x')),
                   float(box.get('width')))


def in_order(begun, ended, stages, back):
    for (kind, stage, shard), begin in begun.items():
        needs = [('forward', stage - 1, shard)] if kind == 'forward' and stage > 0 else []
        if kind == back:
            needs += [('forward', stage, shard)] + [(back, stage + 1, shard)] * (stage + 1 < stages)
        if kind == 'gradient of weights':
            needs += [('gradient of input', stage, shard)]
        for what in needs:
            assert begin >= ended[what] - SLACK_MS, (kind, stage, shard, begin, what, ended[what])


def drawn(path, names, stages, shards, kinds):
    """`kinds` with a tail: as recorded by nodes of these names; without: as predicted."""
    root = xml.parse(path).getroot()
    assert root.tag == SVG + 'svg'
    texts, recorded = [t.text for t in root.iter(SVG + 'text')], 'tail' in kinds
    assert [t for t in texts if t in KINDS] == kinds, texts
    assert {'ms', '0', *(['waiting', 'sum of all nodes', 'numbers: shards'] if recorded else [])} <= set(texts), texts
    assert not recorded or sum(bool(re.fullmatch(r'idle [\d.]+ % \(formula [\d.]+ %\)', t)) for t in texts) == len(names), texts
    assert sorted(t for t in texts if t in names) == sorted(names), texts
    rows, begun, ended = collections.defaultdict(list), {}, {}
    for kind, stage, shard, begin, end, y, x, width in boxes(root):
        rows[y].append((begin, end, x, x + width, kind))
        assert x >= 0 and x + width <= float(root.get('width'))
        if kind != 'tail':
            assert (kind, stage, shard) not in ended, (kind, stage, shard)
            begun[kind, stage, shard], ended[kind, stage, shard] = begin, end
    assert len(rows) == len(names) and len(ended) == stages * shards * (len(kinds) - recorded), (len(rows), len(ended))
    for row in rows.values():
        row.sort()
        assert (row[-1][4] == 'tail') == recorded, row[-1]
        for one, two in zip(row, row[1:]):
            assert one[1] <= two[0] and one[3] <= two[2] + 0.02, (one, two)
    in_order(begun, ended, stages, kinds[1])
