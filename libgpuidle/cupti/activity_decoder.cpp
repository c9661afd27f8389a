// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/cupti/activity_decoder.h"

#include <string>

#include "libgpuidle/cupti/cupti_layouts.h"

namespace gpuidle::cupti {
namespace {

void count(model::Losses& losses, model::LossReason reason) {
  ++losses.count[static_cast<std::size_t>(reason)];
}

bool is_believable(std::uint64_t start, std::uint64_t end, model::Losses& losses) {
  // 0 means "no timing could be collected", and an end of 0 a forced flush of a running activity.
  if (start == 0 || end == 0) {
    count(losses, model::LossReason::zero_timestamp);
    return false;
  }
  if (end < start) {
    count(losses, model::LossReason::reversed_timestamp);
    return false;
  }
  return true;
}

model::CopyKind copy_kind_of(std::uint8_t cupti_kind) {
  switch (cupti_kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return model::CopyKind::host_to_device;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
      return model::CopyKind::device_to_host;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOA:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOA:
      return model::CopyKind::device_to_device;
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return model::CopyKind::host_to_host;
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return model::CopyKind::peer;
    default:
      return model::CopyKind::unknown;
  }
}

model::MemoryKind memory_kind_of(unsigned cupti_kind) {
  return cupti_kind <= static_cast<unsigned>(model::MemoryKind::managed_static)
             ? static_cast<model::MemoryKind>(cupti_kind)
             : model::MemoryKind::unknown;
}

struct OverheadText {
  const char* name;
  bool is_profiler;
};

OverheadText overhead_text(std::uint32_t kind) {
  switch (kind) {
    case 1:
      return {"driver compiler", false};
    case 1u << 16:
      return {"activity buffer flush", true};
    case 2u << 16:
      return {"instrumentation", true};
    case 3u << 16:
      return {"profiling resources", true};
    case 4u << 16:
      return {"module loading", false};
    case 5u << 16:
      return {"lazy function loading", false};
    case 6u << 16:
      return {"command buffer full", false};
    case 7u << 16:
      return {"activity buffer request", true};
    case 8u << 16:
      return {"unified memory initialisation", false};
    default:
      return {"unknown overhead", true};
  }
}

// The fields that copies, peer copies and memsets share, whatever the record's layout.
template <typename Prefix>
model::DeviceActivity transfer(const Prefix& record, model::ActivityKind kind) {
  model::DeviceActivity activity;
  activity.kind = kind;
  activity.start_ns = static_cast<std::int64_t>(record.start);
  activity.end_ns = static_cast<std::int64_t>(record.end);
  activity.bytes = record.bytes;
  activity.device = record.device;
  activity.context = record.context;
  activity.stream = record.stream;
  activity.correlation = record.correlation;
  activity.is_async = (record.flags & 1) != 0;
  return activity;
}

template <typename Prefix>
const Prefix& as(const CUpti_Activity& record) {
  return reinterpret_cast<const Prefix&>(record);
}

}  // namespace

std::size_t ActivityDecoder::measure_stride(CUpti_ActivityKind kind) const {
  // A record begins with its kind and has a multiple of 8 bytes: wherever the second one is looked
  // for, it is of this kind too.
  constexpr std::size_t kWords = 512;
  std::uint64_t words[kWords];
  for (std::uint64_t& word : words) word = static_cast<std::uint32_t>(kind);
  auto* const buffer = reinterpret_cast<std::uint8_t*>(words);
  CUpti_Activity* record = nullptr;
  if (api_->next_record(buffer, sizeof(words), &record) != CUPTI_SUCCESS) return 0;
  const auto* first = reinterpret_cast<std::uint8_t*>(record);
  if (api_->next_record(buffer, sizeof(words), &record) != CUPTI_SUCCESS) return 0;
  const auto distance = reinterpret_cast<std::uint8_t*>(record) - first;
  return distance > 0 ? static_cast<std::size_t>(distance) : 0;
}

base::Status ActivityDecoder::prepare(const CuptiApi& api) {
  api_ = &api;
  last_kernel_of_name_.clear();  // ids of another recording's tables
  for (const ActivityKindRow& row : kActivityKinds) {
    const std::size_t stride = measure_stride(row.kind);
    if (stride != 0 && stride < row.minimum_stride) {
      return {base::StatusCode::unsupported_version,
              api.path + ": records of activity kind " + std::to_string(row.kind) + " have " +
                  std::to_string(stride) + " bytes, at least " +
                  std::to_string(row.minimum_stride) + " are needed"};
    }
    strides_[row.kind] = stride;
  }
  return {};
}

void ActivityDecoder::decode(std::uint8_t* buffer, std::size_t valid_bytes, model::Tables& tables,
                             DecodedRecords& out, model::Losses& losses) {
  CUpti_Activity* record = nullptr;
  while (api_->next_record(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    decode_record(*record, tables, out, losses);
  }
}

model::KernelId ActivityDecoder::kernel_of(const KernelPrefix& record, model::Tables& tables) {
  model::Kernel kernel;
  for (std::size_t i = 0; i < 3; ++i) {
    kernel.grid[i] = static_cast<std::uint32_t>(record.grid[i]);
    kernel.block[i] = static_cast<std::uint32_t>(record.block[i]);
  }
  kernel.registers_per_thread = record.registers_per_thread;
  kernel.static_shared_bytes = static_cast<std::uint32_t>(record.static_shared_bytes);
  kernel.dynamic_shared_bytes = static_cast<std::uint32_t>(record.dynamic_shared_bytes);
  const char* name = record.name == nullptr ? "" : record.name;
  const auto known = last_kernel_of_name_.find(name);
  if (known != last_kernel_of_name_.end()) {
    const model::Kernel& last = tables.kernels()[known->second];
    if (tables.string(last.name) == name) {
      kernel.name = last.name;
      if (kernel == last) return known->second;
    }
  }
  if (kernel.name == 0) kernel.name = tables.intern(name);
  const model::KernelId id = tables.intern(kernel);
  last_kernel_of_name_[name] = id;
  return id;
}

void ActivityDecoder::decode_record(const CUpti_Activity& record, model::Tables& tables,
                                    DecodedRecords& out, model::Losses& losses) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = as<KernelPrefix>(record);
      if (!is_believable(kernel.start, kernel.end, losses)) return;
      model::DeviceActivity activity;
      activity.kind = model::ActivityKind::kernel;
      activity.start_ns = static_cast<std::int64_t>(kernel.start);
      activity.end_ns = static_cast<std::int64_t>(kernel.end);
      activity.device = kernel.device;
      activity.context = kernel.context;
      activity.stream = kernel.stream;
      activity.correlation = kernel.correlation;
      if (stride(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) >= sizeof(KernelPrefix)) {
        activity.graph = kernel.graph;
      }
      activity.kernel = kernel_of(kernel, tables);
      out.activities.push_back(activity);
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = as<MemcpyPrefix>(record);
      if (!is_believable(copy.start, copy.end, losses)) return;
      model::DeviceActivity activity = transfer(copy, model::ActivityKind::memcpy);
      activity.copy = copy_kind_of(copy.copy_kind);
      activity.source = memory_kind_of(copy.source_kind);
      activity.destination = memory_kind_of(copy.destination_kind);
      out.activities.push_back(activity);
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto& copy = as<PeerCopyPrefix>(record);
      if (!is_believable(copy.start, copy.end, losses)) return;
      model::DeviceActivity activity = transfer(copy, model::ActivityKind::memcpy);
      activity.copy = model::CopyKind::peer;
      activity.source = memory_kind_of(copy.source_kind);
      activity.destination = memory_kind_of(copy.destination_kind);
      out.activities.push_back(activity);
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& set = as<MemsetPrefix>(record);
      if (!is_believable(set.start, set.end, losses)) return;
      model::DeviceActivity activity = transfer(set, model::ActivityKind::memset);
      activity.destination = memory_kind_of(set.memory_kind);
      out.activities.push_back(activity);
      return;
    }
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: {
      const auto& graph = as<GraphTracePrefix>(record);
      if (!is_believable(graph.start, graph.end, losses)) return;
      model::DeviceActivity activity;
      activity.kind = model::ActivityKind::graph;
      activity.start_ns = static_cast<std::int64_t>(graph.start);
      activity.end_ns = static_cast<std::int64_t>(graph.end);
      activity.device = graph.device;
      activity.context = graph.context;
      activity.stream = graph.stream;
      activity.correlation = graph.correlation;
      activity.graph = graph.graph;
      out.activities.push_back(activity);
      return;
    }
    case CUPTI_ACTIVITY_KIND_OVERHEAD: {
      const auto& cost = as<OverheadPrefix>(record);
      if (!is_believable(cost.start, cost.end, losses)) return;
      const OverheadText text = overhead_text(cost.overhead_kind);
      model::Overhead overhead;
      overhead.start_ns = static_cast<std::int64_t>(cost.start);
      overhead.end_ns = static_cast<std::int64_t>(cost.end);
      overhead.name = tables.intern(text.name);
      overhead.is_profiler = text.is_profiler;
      if (cost.object_kind == CUPTI_ACTIVITY_OBJECT_THREAD) {
        overhead.thread = tables.intern_thread(cost.process, cost.thread, "");
      }
      out.overheads.push_back(overhead);
      return;
    }
    case CUPTI_ACTIVITY_KIND_DEVICE: {
      const auto& row = as<DevicePrefix>(record);
      model::Device device;
      device.ordinal = row.ordinal;
      device.name = tables.intern(row.name == nullptr ? "" : row.name);
      device.multiprocessors = row.multiprocessors;
      device.compute_major = row.compute_major;
      device.compute_minor = row.compute_minor;
      device.memory_bytes = row.memory_bytes;
      device.merely_listed = true;
      tables.set_device(device);
      return;
    }
    default:
      count(losses, model::LossReason::unknown_record);
  }
}

}  // namespace gpuidle::cupti
