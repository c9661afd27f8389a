// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/places.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <tuple>

#include "libgpuidle/report/format.h"
#include "libgpuidle/symbols/demangle.h"

namespace gpuidle::report {
namespace {

// Base names of object files that are not the user's, by prefix.
constexpr std::string_view kForeignModules[] = {
    // CUDA, its libraries and those of AMD
    "libcuda", "libcupti", "libcublas", "libcudnn", "libcufft", "libcurand", "libcusolver",
    "libcusparse", "libnccl", "libnv", "libamdhip", "libhsa", "librccl", "libroc", "libMIOpen",
    "libgpuidle",
    // C, C++ and their loader
    "libc.so", "libc-", "libpthread", "libm.so", "libm-", "libdl", "librt", "ld-linux", "ld-2",
    "libstdc++", "libgcc_s", "libgomp", "linux-vdso", "[vdso]",
    // interpreters and foreign-function layers: kInterpreterModules
    // frameworks
    "libtorch", "libc10", "_C.cpython", "libtensorflow", "_pywrap_tensorflow", "xla_extension",
    "libtriton", "libtvm", "libonnxruntime"};

// How an interpreter calls from one of its functions into the next, or out of it. Beside the
// interpreted functions themselves these frames say nothing, and are left out.
constexpr std::string_view kInterpreterModules[] = {"libpython", "python2", "python3",
                                                    "_ctypes",   "libffi",  "_cffi"};

// Parts of paths, of source and object files, that are not the user's. "/lib/python3" is the
// standard library.
constexpr std::string_view kForeignPaths[] = {"site-packages/",  "dist-packages/", "/lib/python3",
                                              "torch/nn/",       "torch/utils/",   "torch/optim/",
                                              "torch/autograd/", "torch/cuda/",    "<frozen ",
                                              "cuda_runtime.h",  "/include/c++/"};

// Beginnings of functions that are compiled into the user's object files without being theirs.
constexpr std::string_view kForeignFunctions[] = {
    "__cuda",   "__device_stub_", "cudart::", "libcudart_static_",
    "std::",    "__gnu_cxx::",    "_start",   "__libc_start",
    "at::",     "c10::",          "torch::",  "aten::",
    "<built-in"};

// How every thread and program begins; nobody needs to see it.
constexpr std::string_view kStartFunctions[] = {
    "_start", "__libc_start", "start_thread", "clone", "__clone", "execute_native_thread_routine"};

template <typename Patterns>
bool has_any_prefix(std::string_view text, const Patterns& patterns) {
  return std::any_of(std::begin(patterns), std::end(patterns), [&](std::string_view pattern) {
    return text.substr(0, pattern.size()) == pattern;
  });
}

// cuLaunchKernel, cudaMemcpy, hipFree, ncclSend: a vendor's prefix that goes on with a capital.
bool is_vendor_call(std::string_view function) {
  for (const std::string_view prefix : {"cu", "cuda", "hip", "nccl"}) {
    if (function.size() > prefix.size() && function.substr(0, prefix.size()) == prefix &&
        std::isupper(static_cast<unsigned char>(function[prefix.size()])) != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

Places::Places(const model::Tables& tables, FrameView view)
    : tables_(tables), view_(view), symbolizer_(tables) {
  for (const model::Kernel& kernel : tables.kernels()) {
    if (kernel.name != 0) kernel_names_.insert(symbols::demangle(tables.string(kernel.name)));
  }
}

analysis::FrameNames::Name Places::name_of(model::FrameId frame) {
  const symbols::ResolvedFrame& resolved = symbolizer_.resolve(frame);
  return {resolved.function, resolved.file.empty() ? resolved.module : resolved.file};
}

std::string_view Places::api_name(model::ApiId api) const {
  if (api == 0 || api >= tables_.apis().size()) return {};
  return tables_.string(tables_.apis()[api].name);
}

bool Places::is_users(const symbols::ResolvedFrame& frame) const {
  if (has_any_prefix(base_name(frame.module), kForeignModules)) return false;
  if (has_any_prefix(base_name(frame.module), kInterpreterModules)) return false;
  if (has_any_prefix(frame.function, kForeignFunctions)) return false;
  if (is_vendor_call(frame.function) || kernel_names_.count(frame.function) > 0) return false;
  return std::none_of(std::begin(kForeignPaths), std::end(kForeignPaths), [&](auto part) {
    return frame.file.find(part) != std::string::npos ||
           frame.module.find(part) != std::string::npos;
  });
}

bool Places::is_shown(model::FrameId id, const symbols::ResolvedFrame& frame, FrameView view,
                      bool has_python) const {
  switch (view) {
    case FrameView::all:
      return true;
    case FrameView::python:
      return tables_.frames()[id].kind == model::Frame::Kind::python;
    case FrameView::user:
      return is_users(frame);
    case FrameView::folded:
      break;
  }
  return !has_python || !has_any_prefix(base_name(frame.module), kInterpreterModules);
}

Place Places::shown_as(FrameView view, const model::FrameId* frames, std::size_t count) {
  Place place;
  const bool has_python = std::any_of(frames, frames + count, [this](model::FrameId id) {
    return tables_.frames()[id].kind == model::Frame::Kind::python;
  });
  for (std::size_t i = 0; i < count; ++i) {
    const symbols::ResolvedFrame& frame = symbolizer_.resolve(frames[i]);
    if (!is_shown(frames[i], frame, view, has_python)) continue;
    // A comprehension is part of the function around it, in whose file it is.
    const bool is_around = place.user_frame &&
                           analysis::is_comprehension(place.frames[*place.user_frame].function) &&
                           place.frames[*place.user_frame].file == frame.file;
    if ((!place.user_frame || is_around) && is_users(frame)) place.user_frame = place.frames.size();
    place.frames.push_back(frame);
  }
  if (view == FrameView::all) return place;
  while (!place.frames.empty() && has_any_prefix(place.frames.back().function, kStartFunctions)) {
    place.frames.pop_back();
  }
  if (place.user_frame && *place.user_frame >= place.frames.size()) place.user_frame.reset();
  return place;
}

Place Places::of(model::StackId stack) {
  std::size_t count = 0;
  const model::FrameId* frames = tables_.stack(stack, &count);
  if (stack == 0 || frames == nullptr) return {};
  Place place = shown_as(view_, frames, count);
  const bool is_selective = view_ == FrameView::python || view_ == FrameView::user;
  return place.frames.empty() && is_selective ? shown_as(FrameView::folded, frames, count) : place;
}

std::string GapSites::line_key(model::StackId stack, bool is_function) {
  const Place place = places_.of(stack);
  if (!place.user_frame) return {};
  const symbols::ResolvedFrame& frame = place.frames[*place.user_frame];
  const std::string line = is_function ? std::string() : std::to_string(frame.line);
  return frame.function + '\n' + frame.file + '\n' + frame.module + '\n' + line;
}

void GapSites::note(model::StackId stack, const std::optional<analysis::Gap>& longest) {
  if (!longest || longest->inside == 0 || !longest->closing) return;
  const std::string closing = line_key(longest->closing->stack, false);
  const std::string inside = line_key(stack, true);
  if (!closing.empty() && !inside.empty()) looked_into_.emplace(closing, inside);
}

std::string GapSites::site_of(model::StackId stack, const std::optional<analysis::Gap>& longest) {
  const bool is_looked_into = longest && longest->inside != 0;
  std::string key = line_key(stack, is_looked_into);
  const bool may_go_with = longest && !is_looked_into && longest->closing &&
                           longest->closing->stack == stack && !key.empty();
  if (!may_go_with) return key;
  const auto found = looked_into_.find(key);
  return found == looked_into_.end() ? key : found->second;
}

std::vector<analysis::GapGroup> joined_by_line(const std::vector<analysis::GapGroup>& groups,
                                               Places& places) {
  using Line =
      std::tuple<std::uint32_t, analysis::Opener, model::ApiId, std::string, model::StackId>;
  GapSites sites(&places);
  for (const analysis::GapGroup& group : groups) sites.note(group.stack, group.longest);
  std::vector<analysis::GapGroup> joined;
  std::map<Line, std::size_t> position;
  for (const analysis::GapGroup& group : groups) {  // largest first
    const std::string site = sites.site_of(group.stack, group.longest);
    const Line line{group.device, group.opener, group.api, site, site.empty() ? group.stack : 0};
    const auto [at, is_new] = position.emplace(line, joined.size());
    if (is_new) {
      joined.push_back(group);
    } else {
      analysis::GapGroup& whole = joined[at->second];
      // The stack inside the gaps is the place; where one is known it is shown.
      const bool is_better = whole.longest.inside == 0 && group.longest.inside != 0;
      if (is_better) whole.stack = group.stack;
      whole.absorb(group);
    }
  }
  analysis::rank(&joined);
  return joined;
}

std::string describe(const symbols::ResolvedFrame& frame, std::size_t width) {
  const std::string_view path =
      !frame.file.empty() ? std::string_view(frame.file) : base_name(frame.module);
  if (path.empty()) return elide(frame.function, width);
  const std::string line =
      !frame.file.empty() && frame.line != 0 ? ":" + std::to_string(frame.line) : std::string();
  constexpr std::size_t kMarks = 3;  // " (" and ")"
  const std::size_t function_columns = columns_of(frame.function);
  const std::size_t left =
      width > function_columns + kMarks ? width - function_columns - kMarks : 0;
  // The whole path if there is room, else the file's name; where that does not fit either, function
  // and file get about half each.
  std::string where = std::string(path) + line;
  if (columns_of(where) > left) where = std::string(base_name(path)) + line;
  where = elide_front(where, std::max(width / 2, left));
  const std::size_t taken = columns_of(where) + kMarks;
  return elide(frame.function, width > taken ? width - taken : 0) + " (" + where + ")";
}

}  // namespace gpuidle::report
