"""shuffled.py - the order of samples, anew from the words of nn/data.h."""
MASK = (1 << 64) - 1
SPLIT = MASK  # the epoch that no training has: it divides a table into its parts


def mix64(x):
    x = (x + 0x9e3779b97f4a7c15) & MASK
    x = ((x ^ x >> 30) * 0xbf58476d1ce4e5b9) & MASK
    x = ((x ^ x >> 27) * 0x94d049bb133111eb) & MASK
    return x ^ x >> 31


def shuffle(seed, epoch, i, count):
    key, a = mix64(mix64(seed) ^ epoch), 1
    while a * a < count:
        a += 1
    a = max(a, 16)
    b = max(-(-count // a), 16)
    while True:
        left, right = divmod(i, b)
        for r in range(0, 8, 2):
            left = (left + ((mix64(key ^ (r << 32 | right)) >> 32) * a >> 32)) % a
            right = (right + ((mix64(key ^ (r + 1 << 32 | left)) >> 32) * b >> 32)) % b
        i = left * b + right
        if i < count:
            return i


def test_rows(rows, seed=1):
    """Of each row of a table: is it of the test part?"""
    test = min(max(int(0.2 * rows + 0.5), 1), rows - 1)
    return [shuffle(seed, SPLIT, i, rows) < test for i in range(rows)]
