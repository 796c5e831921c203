#pragma once

#include <filesystem>

#include "detforge/serialize/value.h"

/// Reading and writing weight containers: what is in them is the business of train/ and export/.
namespace detforge {

/// Reads a weights file; the format is recognised by its first bytes, not by its name:
///   - torch.save's zip container (torch >= 1.6), every entry's CRC verified;
///   - torch.save's older container (magic number 0x1950a86a20f9469cfc6c);
///   - a plain pickle of numpy arrays (Detectron2's model zoo, Caffe2 "blobs"), protocols 0 to 5;
///   - safetensors (a dict of tensors; "__metadata__", if there is one, a dict of strings);
///   - Darknet's .weights (numbers without names: darknet_file.h).
/// Tensors are on the CPU, keep their dtype, and share storage where the file says so (views keep
/// offset and strides). Pickled code is never executed: see unpickler.h. Throws Error naming the
/// file: missing, not one of these formats, cut short, damaged, or asking for code. Memory use is
/// bounded by a small multiple of the file's size, whatever the file says.
Value read_torch_file(const std::filesystem::path& path);

/// Writes `value` as torch.save does (zip container, pickle protocol 2, uncompressed), readable by
/// Python's torch.load, with weights_only=True too if it holds no bytes (and, for torch 1.13, no
/// doubles: its restricted reader does not know them). Equal values give equal files, byte for
/// byte. Tensors are written contiguous, detached and for the CPU; the same tensor met again (same
/// memory, shape, strides and dtype) is written once and shared. Written under a temporary name,
/// then renamed. Throws Error if the disk is full or the place cannot be written; then an old file
/// at `path` is untouched.
void write_torch_file(const std::filesystem::path& path, const Value& value);

/// Writes a dict of tensors as safetensors (entries in order of name, 8-byte aligned header);
/// strings are written to "__metadata__". Atomic like write_torch_file. Throws Error if an entry is
/// neither.
void write_safetensors(const std::filesystem::path& path, const Value& value);

}  // namespace detforge
