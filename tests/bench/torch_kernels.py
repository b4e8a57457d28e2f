"""What PyTorch computes with: its version, the libraries for products and the instruction set."""
import ctypes
import re

import torch


def openblas():
    for line in open("/proc/self/maps"):
        path = line.split()[-1]
        if "openblas" in path:
            name = ctypes.CDLL(path).openblas_get_corename
            name.restype = ctypes.c_char_p
            return "OpenBLAS %s" % name().decode()
    return ""


def name():
    text = torch.__config__.show()
    mkl = re.search(r"Math Kernel Library Version ([\d.]+)", text)
    onednn = re.search(r"MKL-DNN v([\d.]+)", text)
    used = re.search(r"CPU capability usage: (\w+)", text)
    parts = ["PyTorch " + torch.__version__, "MKL " + mkl[1] if mkl else openblas(), onednn and "oneDNN " + onednn[1],
             used and used[1]]
    return ", ".join(part for part in parts if part)
