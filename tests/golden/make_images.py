#!/usr/bin/env python3
"""Images as Pillow reads them (pip install pillow numpy).

    make_images.py                    tests/golden/images: small files, and in `pixels` what test_image.c must get
    make_images.py --photos DIR N     N images in 10 classes of all kinds that are read, DIR/CLASS/*.png|jpg
    make_images.py --compare DIR C S  what `meshnode convert` wrote of them to DIR/arrays: the same as Pillow?

A line of `pixels` is NAME WIDTH HEIGHT, then CRC-32 of all pixels as L and as RGB, and of the square of 8 x 8, [channels,
8, 8], of both. The square is resized along rows first: versions of Pillow differ in which axis comes first.
"""
import io
import os
import random
import struct
import sys
import zlib

import numpy as np
from PIL import Image

CLASSES = "bear cat deer dog fox hare lynx mole otter wolf".split()


def square(image, side):
    width, height = image.size
    if width < height:
        wide, high = side, int(side * height / width)
    else:
        wide, high = int(side * width / height), side
    image = image.resize((wide, height), Image.BILINEAR).resize((wide, high), Image.BILINEAR)
    left, top = int(round((wide - side) / 2)), int(round((high - side) / 2))
    pixels = np.asarray(image.crop((left, top, left + side, top + side)))
    return pixels.reshape(side, side, -1).transpose(2, 0, 1)


def noise(rng, width, height, channels):
    """Blobs with grain, so that lossy files stay small and filters have something to do."""
    coarse = rng.integers(0, 256, (height // 8 + 2, width // 8 + 2, channels)).astype(np.uint8)
    smooth = [np.asarray(Image.fromarray(coarse[..., c]).resize((width, height), Image.BICUBIC)) for c in range(channels)]
    grain = rng.integers(-12, 12, (height, width, channels))
    return (np.stack(smooth, -1).astype(int) + grain).clip(0, 255).astype(np.uint8)


def png(width, height, bits, colour, interlaced, data, *chunks):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(chunk(*c) for c in chunks)
            + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def interlaced(pixels):
    """Adam7: seven small images, each row with filter 0."""
    height, width, _ = pixels.shape
    rows = b""
    for x, y, right, down in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]:
        small = pixels[y::down, x::right]
        rows += b"".join(b"\0" + row.tobytes() for row in small if row.size)
    return png(width, height, 8, 2, 1, rows)


def deep(pixels, colour):
    """16 bits per channel."""
    height, width, _ = pixels.shape
    wide = (pixels.astype(">u2") * 257 + 5)
    return png(width, height, 16, colour, 0, b"".join(b"\0" + row.tobytes() for row in wide))


def save(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def two_bits(pixels):
    """Grey of 2 bits, in rows of whole bytes."""
    height, width = pixels.shape
    padded = np.zeros((height, (width + 3) // 4 * 4), np.uint8)
    padded[:, :width] = pixels >> 6
    packed = padded[:, 0::4] << 6 | padded[:, 1::4] << 4 | padded[:, 2::4] << 2 | padded[:, 3::4]
    return png(width, height, 2, 0, 0, b"".join(b"\0" + row.tobytes() for row in packed))


def kinds(rng, width, height, tint=(0, 0, 0, 0)):
    """Name of each kind that is read, and what makes the bytes of one image."""
    a = (noise(rng, width, height, 4) + np.array(tint)).clip(0, 255).astype(np.uint8)
    rgb, grey = Image.fromarray(a[..., :3].copy()), Image.fromarray(a[..., 0].copy())
    turned = Image.Exif()
    turned[0x0112] = 6
    return {
        "rgb.png": lambda: save(rgb, "PNG"),
        "grey.png": lambda: save(grey, "PNG"),
        "bits1.png": lambda: save(grey.convert("1"), "PNG"),
        "bits2.png": lambda: two_bits(a[..., 0]),
        "rgba.png": lambda: save(Image.fromarray(a), "PNG"),
        "la.png": lambda: save(Image.fromarray(a[..., :2].copy(), "LA"), "PNG"),
        "palette2.png": lambda: save(rgb.quantize(2), "PNG"),
        "palette16.png": lambda: save(rgb.quantize(16), "PNG"),
        "palette200.png": lambda: save(rgb.quantize(200), "PNG", transparency=3),
        "colour_key.png": lambda: save(rgb, "PNG", transparency=(1, 2, 3)),
        "interlaced.png": lambda: interlaced(a[..., :3]),
        "gamma.png": lambda: png(width, height, 8, 2, 0, b"".join(b"\0" + row.tobytes() for row in a[..., :3]),
                         (b"gAMA", struct.pack(">I", 100000)), (b"tEXt", b"Comment\0of nothing")),
        "420.jpg": lambda: save(rgb, "JPEG", quality=80),
        "422.jpg": lambda: save(rgb, "JPEG", quality=90, subsampling=1),
        "444.jpg": lambda: save(rgb, "JPEG", quality=95, subsampling=0),
        "progressive.jpg": lambda: save(rgb, "JPEG", progressive=True),
        "grey.jpg": lambda: save(grey, "JPEG"),
        "cmyk.jpg": lambda: save(Image.fromarray(a, "CMYK"), "JPEG"),
        "rgb.jpg": lambda: save(rgb, "JPEG", keep_rgb=True),
        "restart.jpg": lambda: save(rgb, "JPEG", restart_marker_blocks=1),
        "turned.jpg": lambda: save(rgb, "JPEG", exif=turned),
    }


def golden(folder):
    rng = np.random.default_rng(7)
    os.makedirs(folder, exist_ok=True)
    files = {name: make() for name, make in kinds(rng, 23, 17).items()}
    files["tall.jpg"] = kinds(rng, 3, 90)["420.jpg"]()
    files["wide.png"] = kinds(rng, 101, 2)["rgb.png"]()
    files["dot.png"] = kinds(rng, 1, 1)["rgb.png"]()
    files["deep.png"] = deep(noise(rng, 9, 9, 1), 0)
    files["deep_rgb.png"] = deep(noise(rng, 9, 9, 3), 2)
    with open(folder + "/pixels", "w") as out:
        for name, data in sorted(files.items()):
            with open(folder + "/" + name, "wb") as file:
                file.write(data)
            if name.startswith("deep"):
                continue
            image = Image.open(io.BytesIO(data))
            as_read = [image.convert(mode) for mode in ("L", "RGB")]
            crcs = [zlib.crc32(i.tobytes()) for i in as_read] + [zlib.crc32(square(i, 8).tobytes()) for i in as_read]
            print(name, *image.size, *("%08x" % crc for crc in crcs), file=out)


def photos(folder, count):
    """Each class has its own shade, so that there is something to learn."""
    random.seed(5)
    rng = np.random.default_rng(5)
    for i in range(count):
        name = CLASSES[i % len(CLASSES)]
        shapes = [(random.randint(20, 90), random.randint(20, 90)), (random.randint(100, 240), random.randint(60, 200))]
        c = i % len(CLASSES)
        tint = (60 * (c & 3) - 90, 60 * (c >> 2) - 60, 40 * (c % 5) - 80, 0)
        variants = kinds(rng, *random.choice(shapes), tint)
        kind = random.choice(sorted(variants))
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        with open(f"{folder}/{name}/{i:04}-{kind}", "wb") as file:
            file.write(variants[kind]())


def compare(folder, channels, side):
    """The squares of all files, as a multiset: which sample is which file is the seed's affair."""
    mode = "L" if channels == 1 else "RGB"
    paths = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name[-3:] in ("png", "jpg")]
    theirs = sorted(square(Image.open(p).convert(mode), side).tobytes() for p in paths)
    parts = [np.load(f"{folder}/arrays/{part}features.npy") for part in ("", "test-")]
    ours = sorted(np.rint((row + 0.5) * 255).astype(np.uint8).tobytes() for part in parts for row in part)
    same = sum(a == b for a, b in zip(ours, theirs))
    print(f"{same} of {len(paths)} files as Pillow reads them")
    return 0 if ours == theirs else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--photos"]:
        photos(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1:2] == ["--compare"]:
        sys.exit(compare(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    else:
        golden(os.path.join(os.path.dirname(os.path.abspath(__file__)), "images"))
