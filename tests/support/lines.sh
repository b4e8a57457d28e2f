#!/bin/bash
# lines.sh - all lines that the program can say, by file: the texts of calls that log, warn, fail or print.
#
#     tests/support/lines.sh            the list
#     tests/support/lines.sh check      no line above debug level has a word that only we understand
#
# A text that is put together from several literals is one line of the list.
cd "$(dirname "$0")/../.." || exit 2
exec python3 - "${1:-list}" <<'PY'
import glob, re, sys

CALL = re.compile(r'\b(core_log|train_say|wire_log|actor_log|log_finding|metrics_say|show_say|say|complain|find|fail|'
                  r'find_job|alarm|metrics_doing|term_fail|fprintf|printf|puts|snprintf|why_set|why_error|why_append|config_why|discover_log)\s*\(')
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
WORDS = re.compile(r'\b(rounds?|plans?|totals|members?|dropped|peers?|incarnations?|trainers?|not mixing|heartbeats?)\b')
# Keys, files and options that people type or read have these names.
TYPED = re.compile(r'--peers?|mesh\.peers|peers_min|peers_max|"peers"')
LOGS = ('core_log', 'train_say', 'wire_log', 'actor_log', 'log_finding', 'metrics_say', 'show_say', 'discover_log',
        'metrics_doing')


def arguments(text, at):
    """The text between the parenthesis at `at` and its partner, comments and all."""
    depth, quoted, i = 0, False, at
    while i < len(text):
        c = text[i]
        if quoted:
            i += c == '\\'
            quoted = c != '"' or text[i] != '"'
        elif c == '"':
            quoted = True
        elif c == '(':
            depth += 1
        elif c == ')':
            depth -= 1
            if depth == 0:
                return text[at + 1:i]
        i += 1
    return ''


def lines(path):
    """(number, name of the call, level or None, text)"""
    text = open(path).read()
    for call in CALL.finditer(text):
        inside = arguments(text, call.end() - 1)
        literals = LITERAL.findall(inside)
        said = ''.join(literals).replace('\\n', '').strip()
        if not re.search('[A-Za-z]{2}.* ', said):
            continue
        level = re.match(r'\s*[\w>.&-]+\s*,\s*(\d)\s*,', inside)
        yield text.count('\n', 0, call.start()) + 1, call.group(1), int(level.group(1)) if level else None, said


bad = count = 0
for path in sorted(path for room in ('node', 'mesh', 'nn', 'proto') for path in glob.glob(f'{room}/**/*.c', recursive=True)):
    for number, call, level, said in lines(path):
        if sys.argv[1] == 'list':
            print(f'{path}:{number}: {"debug: " if level == 7 else ""}{said}')
        count += 1
        internal = WORDS.search(TYPED.sub('', said))
        if call in LOGS and level != 7 and internal:
            print(f'{path}:{number}: "{internal.group()}" is our word, not that of a reader: {said}', file=sys.stderr)
            bad += 1
if count < 300:
    sys.exit(f'lines.sh: only {count} lines were found: it does not see the calls that say them')
if sys.argv[1] == 'check':
    print(f'lines: {count}, {bad} with words of ours')
sys.exit(bad > 0)
PY
