// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/frame_work.h"

#include <algorithm>
#include <cctype>

namespace gpuidle::analysis {
namespace {

// A name fits if `where` is part of its file and `function` of its function; "" fits all. A word
// must not go on to either side: "item" is not "__getitem__".
struct Pattern {
  HostWork work;
  std::string_view where;
  std::string_view function;
  bool is_word = false;
};

// Only names that stand for the work itself. What also lies on the stack of ordinary launches is
// left out: torch/_dynamo/eval_frame.py around each call of compiled code, __getitem__ of modules
// and tensors, queue.get() of an idle server.
constexpr Pattern kPatterns[] = {
    {HostWork::loader_wait, "", "_MultiProcessingDataLoaderIter"},
    {HostWork::loader_wait, "data/dataloader.py", "_try_get_data"},
    {HostWork::loader_wait, "data/dataloader.py", "_get_data"},
    {HostWork::loader_wait, "", "enumerate(DataPipe)"},
    {HostWork::loader_wait, "", "IteratorGetNext"},
    {HostWork::loader_wait, "nvidia/dali", "_feed_input"},
    {HostWork::inline_preprocess, "", "_SingleProcessDataLoaderIter"},
    {HostWork::inline_preprocess, "data/_utils/fetch.py", ""},
    {HostWork::inline_preprocess, "data/_utils/collate.py", ""},
    {HostWork::inline_preprocess, "albumentations/", ""},
    {HostWork::inline_preprocess, "librosa/", ""},
    {HostWork::loader_wait, "data/dataloader.py", "__next__"},
    {HostWork::upload, "PIL/Image.py", "save", true},
    {HostWork::inline_preprocess, "PIL/", ""},
    {HostWork::checkpoint, "torch/serialization.py", "save"},
    {HostWork::checkpoint, "torch/distributed/checkpoint/", ""},
    {HostWork::checkpoint, "transformers/trainer.py", "_save"},
    {HostWork::checkpoint, "safetensors/", "save"},
    {HostWork::checkpoint, "deepspeed/", "save"},
    {HostWork::checkpoint, "tensorflow/python/checkpoint/", ""},
    {HostWork::checkpoint, "orbax/", "save"},
    {HostWork::checkpoint, "", "save_pretrained"},
    {HostWork::checkpoint, "", "save_checkpoint"},
    {HostWork::upload, "tensorboard/", ""},
    {HostWork::upload, "tensorboardX/", ""},
    {HostWork::upload, "wandb/", ""},
    {HostWork::upload, "mlflow/", ""},
    {HostWork::upload, "azureml/", ""},
    {HostWork::upload, "comet_ml/", ""},
    {HostWork::upload, "shutil.py", "copy"},
    {HostWork::upload, "json/__init__.py", "dump"},
    {HostWork::upload, "numpy/", "save", true},
    {HostWork::upload, "logging/__init__.py", "emit"},
    {HostWork::fetch, "huggingface_hub/", ""},
    {HostWork::fetch, "transformers/utils/hub.py", ""},
    {HostWork::fetch, "datasets/download/", ""},
    {HostWork::fetch, "torch/hub.py", "download"},
    {HostWork::fetch, "urllib/request.py", ""},
    {HostWork::metrics, "sklearn/", ""},
    {HostWork::metrics, "pandas/", ""},
    {HostWork::metrics, "scipy/", ""},
    {HostWork::metrics, "nltk/", ""},
    {HostWork::metrics, "torchmetrics/", ""},
    {HostWork::metrics, "sacrebleu/", ""},
    {HostWork::metrics, "pycocotools/", ""},
    {HostWork::garbage, "", "gc_collect_main"},
    {HostWork::garbage, "", "_PyGC_Collect"},
    {HostWork::garbage, "", "built-in function collect"},
    {HostWork::garbage, "", "gc.collect"},
    {HostWork::compile, "torch/_dynamo/convert_frame.py", ""},
    {HostWork::compile, "torch/_inductor/", "compile"},
    {HostWork::compile, "torch/_inductor/", "codegen"},
    {HostWork::compile, "triton/compiler/", "compile"},
    {HostWork::compile, "triton/compiler/", "_init_handles"},
    {HostWork::compile, "triton/runtime/autotuner.py", "_bench"},
    {HostWork::compile, "", "benchmark_all_configs"},
    {HostWork::compile, "", "nvrtcCompileProgram"},
    {HostWork::compile, "libnvrtc", ""},
    {HostWork::compile, "libnvJitLink", ""},
    {HostWork::compile, "", "backend_compile"},
    {HostWork::compile, "", "Runtime Triggered Module Loading"},
    {HostWork::compile, "", "Lazy Function Loading"},
    {HostWork::scalar_read, "", "_local_scalar_dense"},
    {HostWork::scalar_read, "", "item", true},
    {HostWork::scalar_read, "", "tolist", true},
    {HostWork::scalar_read, "", "is_nonzero", true},
    {HostWork::scalar_read, "", "nonzero", true},
    {HostWork::explicit_sync, "torch/cuda/", "synchronize"},
    {HostWork::explicit_sync, "", "_cuda_synchronize"},
    {HostWork::alloc_flush, "torch/cuda/memory.py", "empty_cache"},
    {HostWork::alloc_flush, "", "release_cached_blocks"},
    {HostWork::alloc_flush, "", "release_available_cached_blocks"},
};

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_name_character(text[at - 1])) &&
        (end == text.size() || !is_name_character(text[end]))) {
      return true;
    }
  }
  return false;
}

bool fits(const Pattern& pattern, std::string_view where, std::string_view function) {
  if (!pattern.where.empty() && where.find(pattern.where) == std::string_view::npos) return false;
  return pattern.is_word ? has_word(function, pattern.function)
                         : function.find(pattern.function) != std::string_view::npos;
}

// The row of a dictionary's id; ids beyond the dictionary share the row of "none".
template <typename Row>
Row& row_at(std::vector<Row>* rows, std::size_t size, std::size_t id) {
  if (rows->size() < size) rows->resize(size);
  return (*rows)[id < rows->size() ? id : 0];
}

}  // namespace

bool is_comprehension(std::string_view function) {
  for (const std::string_view scope : {"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"}) {
    if (function.size() >= scope.size() &&
        function.substr(function.size() - scope.size()) == scope) {
      return true;
    }
  }
  return false;
}

HostWork work_of(std::string_view where, std::string_view function) {
  const auto* const found =
      std::find_if(std::begin(kPatterns), std::end(kPatterns),
                   [&](const Pattern& pattern) { return fits(pattern, where, function); });
  return found == std::end(kPatterns) ? HostWork::other : found->work;
}

HostWork FrameWork::of_frame(model::FrameId id) {
  if (id >= tables_.frames().size()) return HostWork::other;
  Known& known = row_at(&frames_, tables_.frames().size(), id);
  if (known.is_known) return known.work.work;
  known.is_known = true;
  const model::Frame& frame = tables_.frames()[id];
  FrameNames::Name name{tables_.string(frame.function), tables_.string(frame.file)};
  if (frame.kind == model::Frame::Kind::native) {
    name = names_ != nullptr ? names_->name_of(id) : FrameNames::Name{};
  }
  known.work.work = work_of(name.where, name.function);
  return known.work.work;
}

StackWork FrameWork::of_stack(model::StackId stack) {
  std::size_t count = 0;
  const model::FrameId* frames = tables_.stack(stack, &count);
  if (stack == 0 || frames == nullptr || count == 0) return {};
  Known& known = row_at(&stacks_, tables_.stack_count(), stack);
  if (known.is_known) return known.work;
  known.is_known = true;
  known.work.has_frames = true;
  const model::Frame* inner = nullptr;  // the Python function that the stack is in
  for (std::size_t i = 0; i < count; ++i) {
    if (known.work.work == HostWork::other) known.work.work = of_frame(frames[i]);
    if (frames[i] >= tables_.frames().size()) continue;
    const model::Frame& frame = tables_.frames()[frames[i]];
    const bool is_python = frame.kind == model::Frame::Kind::python;
    if (is_python && (inner == nullptr || (is_comprehension(tables_.string(inner->function)) &&
                                           inner->file == frame.file))) {
      inner = &frame;
      known.work.function = std::uint64_t{frame.function} << 32 | frame.file;
    }
    known.work.has_python |= is_python || (frame.kind == model::Frame::Kind::symbolic &&
                                           tables_.string(frame.function).substr(0, 6) == "aten::");
  }
  return known.work;
}

HostWork FrameWork::of_name(model::StringId name) {
  if (name >= tables_.strings().size()) return HostWork::other;
  Known& known = row_at(&strings_, tables_.strings().size(), name);
  if (!known.is_known) {
    known.is_known = true;
    known.work.work = work_of("", tables_.string(name));
  }
  return known.work.work;
}

}  // namespace gpuidle::analysis
