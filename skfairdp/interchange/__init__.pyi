from .onnx_files import save_onnx
from .skops_files import load_skops, save_skops
from .tracking import log_certificate

__all__ = ["load_skops", "log_certificate", "save_onnx", "save_skops"]
