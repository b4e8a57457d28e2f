#!/usr/bin/env python3
"""structure.py OBJECTS - are the rooms of mesh/core as they are meant to be? OBJECTS: the folder of its objects.

Counts call arrows (an object that uses a function of another one) among files and among parts, circles, functions and their lines; refuses, with
the name of the offender: a symbol that reads a clock, opens a socket, starts a thread or allocates after the start; a
call or an include upwards; a part that may write to another part's record; a function that no other file uses and that
is not static; a file that asserts nothing."""
import collections, glob, os, re, statistics, subprocess, sys

STOREYS = [  # from the bottom to the top
    ('base', 'clock backoff mutant cost servers gossip_flow gossip_graph push_tickets'),
    ('sessions', 'link contact report admit rendezvous peers sessions'),
    ('view', 'view heartbeat'),
    ('parts', 'group plan plan_lead plan_elect contribution lag straggler divergence transfer fetch fetch_copy '
              'fetch_follow serve audit page_repair gossip gossip_record gossip_internal gossip_link gossip_give gossip_copy gossip_count gossip_wait gossip_plan gossip_snapshot gossip_run'),
    ('collective', 'collective route route_ring route_direct route_star'),
    ('engine', 'engine rounds rounds_act gossip_engine gossip_status push push_group push_elect push_copy push_range push_lease push_work push_cut'),
    ('core', 'core core_look'),
]
STOREY = {name: level for level, (_, names) in enumerate(STOREYS) for name in names.split()}
CONDUCTORS = {'core', 'rounds', 'rounds_act', 'gossip_engine', 'gossip_status', 'push'}  # they have struct core to change
SHARED = {'core', 'internal', 'mutant'}                          # headers for all: the interface, the record, planted bugs
ALLOCATES = {'core', 'collective', 'transfer', 'fetch', 'rounds_act', 'gossip_engine', 'push'}  # at the start only
PURE = set('__popcountdi2 memcpy memset memmove memcmp strlen strnlen strcmp strchr snprintf vsnprintf __snprintf_chk __vsnprintf_chk '
           '__assert_fail __stack_chk_fail _GLOBAL_OFFSET_TABLE_ XXH3_64bits_withSeed XXH3_64bits'.split())
# Engines beside rounds stand apart: the arrows of each are counted for itself.
OTHER_ENGINES = {'push': 24, 'gossip': 34}
# A part may have several files, whose names begin alike: an arrow among parts counts once.
MAX = {'arrows': 52, 'parts': 33, 'circle': 1, 'peer': 15, 'file': 500, 'median': 10, 'p90': 25, 'function': 60}
bad = []


def refuse(line):
    bad.append(line)


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


def others(objects):
    """What proto and compress define: pure by the rules of their own folders."""
    root = os.path.dirname(os.path.dirname(objects))
    defined = set()
    for path in glob.glob(f'{root}/proto/*.o') + glob.glob(f'{root}/compress/*.o'):
        for line in subprocess.check_output(['nm', '-g', '--defined-only', path], text=True).splitlines():
            defined.add(line.split()[-1])
    return defined


def part(name):
    first = name.split('_')[0]
    return 'collective' if first == 'route' else first


def among_parts(arrows):
    return {(part(a), part(b)) for a, b in arrows if part(a) != part(b)}


def circle(arrows):
    """The largest set of files of which each reaches each other one."""
    reach = collections.defaultdict(set)
    for a, b in arrows:
        reach[a].add(b)
    changed = True
    while changed:
        changed = False
        for a in list(reach):
            more = set().union(*(reach[b] for b in reach[a])) - reach[a] if reach[a] else set()
            if more:
                reach[a] |= more
                changed = True
    names = {a for a, _ in arrows} | {b for _, b in arrows}
    best = []
    for a in names:
        same = [b for b in names if b in reach[a] and a in reach[b]] + ([] if a in reach[a] else [a])
        best = same if len(same) > len(best) else best
    return best


def functions(path):
    lines, length, count = open(path).read().split('\n'), [], 0
    for line in lines:
        if line == '{':
            count = 1
        elif line == '}' and count:
            length.append(count + 1)
            count = 0
        elif count:
            count += 1
    return length


def peer_fields(text):
    body = re.search(r'^struct peer \{\n(.*?)^\};', text, re.S | re.M).group(1)
    body = re.sub(r'/\*.*?\*/', '', body, flags=re.S)
    return sum(1 + statement.count(',') for statement in body.split(';') if statement.strip())


def check_symbols(objects):
    sources = [os.path.basename(path)[:-2] for path in sorted(glob.glob('mesh/core/**/*.c', recursive=True))]
    defined, used = symbols([path for name in sources for set in ('', '.base', '.avx2', '.avx512')
                             for path in glob.glob(f'{objects}/**/{name}{set}.o', recursive=True)])
    known = others(objects) | PURE
    arrows = set()
    for name in sorted(used):
        for symbol in sorted(used[name]):
            if symbol in defined:
                if defined[symbol] != name:
                    arrows.add((name, defined[symbol]))
            elif symbol in ('calloc', 'free'):
                if name not in ALLOCATES:
                    refuse(f'mesh/core/{name}.c allocates: {symbol}')
            elif symbol not in known and not symbol.startswith(('__asan', '__ubsan', '__tsan', '__sanitizer')):
                refuse(f'mesh/core/{name}.c is not pure: it uses {symbol}')
    for a, b in sorted(arrows):
        if STOREY[a] < STOREY[b]:
            refuse(f'mesh/core/{a}.c calls upwards: {b}.c')
    return arrows


def check_static(objects):
    """What no other file names needs no name for them. A variant of a loop is named by a macro."""
    defined, _ = symbols([path for path in glob.glob(f'{objects}/**/*.o', recursive=True) if os.path.basename(path).count('.') == 1])
    words = {path: collections.Counter(re.findall(r'\w+', open(path).read()))
             for folder in ('mesh', 'node', 'tests') for path in glob.glob(f'{folder}/**/*.[ch]', recursive=True)}
    path_of = {os.path.basename(path)[:-2]: path for path in words if path.startswith('mesh/core/') and path.endswith('.c')}
    for symbol, name in sorted(defined.items()):
        if symbol.startswith('__'):  # of a sanitizer
            continue
        own = path_of.get(name)
        in_sources = any(words[path][symbol] for path in words if path.endswith('.c') and path != own)
        in_headers = sum(words[path][symbol] for path in words if path.endswith('.h'))
        if own in words and not in_sources and in_headers < 2:  # one is its declaration
            refuse(f'{own}: nobody else uses {symbol}: static')


def check_sources():
    for path in sorted(glob.glob('mesh/core/**/*.[ch]', recursive=True)):
        name = os.path.basename(path)[:-2]
        text = open(path).read()
        if name not in STOREY and name != 'internal':
            refuse(f'{path} is in no storey: tests/support/structure.py lists them')
            continue
        if path.endswith('.c') and 'assert(' not in text and not name.endswith('_simd'):
            refuse(f'{path} asserts nothing')
        if name == 'internal':
            continue
        for other in re.findall(r'^#include "mesh/core/(?:\w+/)?(\w+)\.h"', text, re.M):
            if other not in SHARED and STOREY[other] > STOREY[name]:
                refuse(f'{path} includes upwards: {other}.h')
        if name not in CONDUCTORS | {'engine'}:
            for line in re.findall(r'^.*(?<!const )struct core \*(?!\*).*$', text, re.M):
                refuse(f'{path} may write to the record of another part: {line.strip()}')


def main():
    arrows = check_symbols(sys.argv[1])
    check_static(sys.argv[1])
    check_sources()
    sizes = {path: len(open(path).read().split('\n')) - 1 for path in glob.glob('mesh/core/**/*.c', recursive=True)}
    length = sorted(n for path in sizes for n in functions(path))
    for name, most in OTHER_ENGINES.items():
        its = {(a, b) for a, b in arrows if part(a) == name or part(b) == name}
        arrows -= its
        print(f'  call arrows of the engine {name}: {len(its)} (at most {most})')
        if len(its) > most:
            refuse(f'mesh/core: call arrows of the engine {name}: {len(its)}, more than {most}')
        if len(circle(its)) > 1:
            refuse('mesh/core: these files call one another: ' + ', '.join(sorted(circle(its))))
    figures = {
        'arrows': len(arrows),
        'parts': len(among_parts(arrows)),
        'circle': len(circle(arrows)),
        'peer': peer_fields(open('mesh/core/sessions/peers.h').read()),
        'file': max(sizes.values()),
        'median': int(statistics.median(length)),
        'p90': length[len(length) * 9 // 10],
        'function': length[-1],
    }
    print(f'mesh/core: {len(sizes)} files, {sum(sizes.values())} lines, {len(length)} functions')
    for key, words in (('arrows', 'call arrows among files'), ('parts', 'call arrows among parts'), ('circle', 'largest circle of files'), ('peer', 'fields of struct peer'),
                       ('file', 'lines of the longest file'), ('median', 'lines of the median function'),
                       ('p90', 'lines of nine functions in ten, at most'), ('function', 'lines of the longest function')):
        print(f'  {words}: {figures[key]} (at most {MAX[key]})')
        if figures[key] > MAX[key] and key != 'circle':  # its files are named below
            refuse(f'mesh/core: {words}: {figures[key]}, more than {MAX[key]}')
    if figures['circle'] > MAX['circle']:
        refuse('mesh/core: these files call one another: ' + ', '.join(sorted(circle(arrows))))
    if len(circle(among_parts(arrows))) > 1:
        refuse('mesh/core: these parts call one another: ' + ', '.join(sorted(circle(among_parts(arrows)))))
    for line in bad:
        print(f'layers: {line}', file=sys.stderr)
    return 1 if bad else 0


sys.exit(main())
