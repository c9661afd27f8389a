// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/import/kineto_json.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace gpuidle::import {
namespace {

namespace ondemand = simdjson::ondemand;

static_assert(PaddedText::kPaddingBytes - PaddedText::kRepairBytes >= simdjson::SIMDJSON_PADDING,
              "the parser reads further behind the text than it is padded");

struct CategoryRow {
  std::string_view category;  // lower case
  RowKind kind;
};
constexpr CategoryRow kCategories[] = {
    {"kernel", RowKind::kernel},
    {"gpu_memcpy", RowKind::memcpy},
    {"memcpy", RowKind::memcpy},
    {"gpu_memset", RowKind::memset},
    {"memset", RowKind::memset},
    {"cuda_runtime", RowKind::runtime_call},
    {"hip_runtime", RowKind::runtime_call},
    {"runtime", RowKind::runtime_call},
    {"cuda_driver", RowKind::driver_call},
    {"hip_driver", RowKind::driver_call},
    {"cpu_op", RowKind::operator_call},
    {"operator", RowKind::operator_call},
    {"user_annotation", RowKind::annotation},
    {"python_function", RowKind::python},
    {"overhead", RowKind::overhead},
    {"trace", RowKind::window},
    // They lie on the lanes of the device or beside the host's calls without being work of either.
    {"gpu_user_annotation", RowKind::ignored},
    {"cuda_sync", RowKind::ignored},
    {"cuda_event", RowKind::ignored},
    {"cuda_profiler_range", RowKind::ignored},
    {"cpu_instant_event", RowKind::ignored},
    {"ac2g", RowKind::ignored},
    {"fwdbwd", RowKind::ignored},
    {"async", RowKind::ignored},
    {"async_gpu", RowKind::ignored},
    {"async_cpu_to_gpu", RowKind::ignored},
    {"python", RowKind::ignored},
    {"", RowKind::ignored},
};

// Memory events have no category (2021), or one that they share with other instants.
RowKind kind_of(std::string_view phase, std::string_view category, std::string_view name) {
  if (phase == "M") return RowKind::metadata;
  if (phase == "i" && name == "[memory]") return RowKind::memory_event;
  if (phase != "X") return RowKind::ignored;
  std::array<char, 24> lower{};
  if (category.size() > lower.size()) return RowKind::unknown;
  std::transform(category.begin(), category.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const std::string_view known(lower.data(), category.size());
  const auto* row = std::find_if(std::begin(kCategories), std::end(kCategories),
                                 [known](const CategoryRow& r) { return r.category == known; });
  return row == std::end(kCategories) ? RowKind::unknown : row->kind;
}

bool has_useful_args(RowKind kind) {
  return kind != RowKind::ignored && kind != RowKind::unknown && kind != RowKind::python &&
         kind != RowKind::overhead && kind != RowKind::window;
}

// The root object also holds names of users, hosts and jobs, which are nobody's business.
bool is_setting(std::string_view key) {
  constexpr std::string_view kSettings[] = {"schemaVersion",       "record_shapes",
                                            "profile_memory",      "traceName",
                                            "cuda_driver_version", "hip_driver_version"};
  return key.substr(0, 5) == "with_" ||
         std::find(std::begin(kSettings), std::end(kSettings), key) != std::end(kSettings);
}

template <typename Struct>
struct Field {
  std::string_view key;
  std::string_view Struct::*token;
};

constexpr Field<KinetoRow> kRowFields[] = {
    {"ph", &KinetoRow::phase}, {"cat", &KinetoRow::category}, {"name", &KinetoRow::name},
    {"pid", &KinetoRow::pid},  {"tid", &KinetoRow::tid},      {"ts", &KinetoRow::ts},
    {"dur", &KinetoRow::dur},
};
constexpr Field<KinetoRow> kArgFields[] = {
    {"correlation", &KinetoRow::correlation},
    {"device", &KinetoRow::device},
    {"stream", &KinetoRow::stream},
    {"context", &KinetoRow::context},
    {"bytes", &KinetoRow::bytes},
    {"graph id", &KinetoRow::graph},
    {"grid", &KinetoRow::grid},
    {"block", &KinetoRow::block},
    {"registers per thread", &KinetoRow::registers},
    {"shared memory", &KinetoRow::shared_memory},
    {"Call stack", &KinetoRow::call_stack},
    {"name", &KinetoRow::label},
    {"Device Type", &KinetoRow::device_type},
    {"Device Id", &KinetoRow::device_id},
    {"Bytes", &KinetoRow::memory_bytes},
    {"Total Allocated", &KinetoRow::total_allocated},
    {"Total Reserved", &KinetoRow::total_reserved},
};
constexpr Field<KinetoDevice> kDeviceFields[] = {
    {"id", &KinetoDevice::id},
    {"name", &KinetoDevice::name},
    {"numSms", &KinetoDevice::multiprocessors},
    {"computeMajor", &KinetoDevice::compute_major},
    {"computeMinor", &KinetoDevice::compute_minor},
    {"totalGlobalMem", &KinetoDevice::memory_bytes},
};
constexpr Field<KinetoHeader> kHeaderFields[] = {
    {"baseTimeNanoseconds", &KinetoHeader::base_time_ns},
    {"host_name", &KinetoHeader::host_name},
    {"cupti_version", &KinetoHeader::cupti_version},
    {"cuda_runtime_version", &KinetoHeader::cuda_runtime_version},
    {"roctracer_version", &KinetoHeader::roctracer_version},
    {"hip_runtime_version", &KinetoHeader::hip_runtime_version},
};
constexpr Field<KinetoHeader> kDistributedFields[] = {
    {"rank", &KinetoHeader::rank},
    {"world_size", &KinetoHeader::world_size},
};
constexpr std::size_t kMaxKeys = 8;
constexpr std::size_t kMaxSettings = 32;
constexpr std::size_t kMaxDevices = 1024;

// Walks one document. Every function returns the parser's error, and every caller stops at it:
// after an error the parser's position means nothing.
class Walker {
 public:
  Walker(const PaddedText& text, KinetoRowSink& sink, KinetoWalk& walk)
      : text_(text.view()), sink_(sink), walk_(walk) {}

  simdjson::error_code walk(std::size_t readable_bytes);

 private:
  using Error = simdjson::error_code;

  Error walk_root_object(ondemand::object root);
  Error walk_root_value(std::string_view key, ondemand::value value);
  Error walk_rows(ondemand::array rows);
  Error walk_row(ondemand::object row);
  Error walk_devices(ondemand::array devices);
  template <typename Struct, std::size_t Count>
  Error walk_fields(ondemand::object object, const Field<Struct> (&fields)[Count], Struct& target);

  std::string_view key_of(ondemand::raw_json_string key) const;
  std::string_view token_of(ondemand::value value) const;
  std::string_view behind(std::string_view token) const;

  std::string_view text_;
  KinetoRowSink& sink_;
  KinetoWalk& walk_;
  KinetoRow row_;
};

std::string_view Walker::key_of(ondemand::raw_json_string key) const {
  const auto first = static_cast<std::size_t>(key.raw() - text_.data());
  const std::size_t end = text_.find('"', first);
  return end == std::string_view::npos ? text_.substr(first) : text_.substr(first, end - first);
}

// The parser's token reaches to the next one, over white space.
std::string_view Walker::token_of(ondemand::value value) const {
  std::string_view token = value.raw_json_token();
  const char* const end = text_.data() + text_.size();
  if (token.data() + token.size() > end) {
    token = token.data() < end
                ? std::string_view(token.data(), static_cast<std::size_t>(end - token.data()))
                : std::string_view();
  }
  while (!token.empty() && static_cast<unsigned char>(token.back()) <= ' ') token.remove_suffix(1);
  if (token.size() >= 2 && token.front() == '"' && token.back() == '"') {
    return token.substr(1, token.size() - 2);
  }
  return token == "null" ? std::string_view() : token;
}

// From the beginning of `token` on, as far as an array of three numbers may reach.
std::string_view Walker::behind(std::string_view token) const {
  constexpr std::size_t kMaxDimensionBytes = 96;
  if (token.empty()) return {};
  return text_.substr(static_cast<std::size_t>(token.data() - text_.data()), kMaxDimensionBytes);
}

template <typename Struct, std::size_t Count>
simdjson::error_code Walker::walk_fields(ondemand::object object,
                                         const Field<Struct> (&fields)[Count], Struct& target) {
  for (auto element : object) {
    ondemand::field field;
    if (const Error error = std::move(element).get(field)) return error;
    const std::string_view key = key_of(field.key());
    for (const Field<Struct>& known : fields) {
      if (known.key == key) {
        target.*known.token = token_of(field.value());
        break;
      }
    }
  }
  return simdjson::SUCCESS;
}

simdjson::error_code Walker::walk_row(ondemand::object row) {
  row_ = {};
  for (auto element : row) {
    ondemand::field field;
    if (const Error error = std::move(element).get(field)) return error;
    const std::string_view key = key_of(field.key());
    if (key == "args") {
      // Written after phase and category nearly always; in a file with sorted keys before them.
      const bool is_wanted = row_.phase.empty() || (row_.category.empty() && row_.phase != "M") ||
                             (row_.phase == "i" && row_.name.empty()) ||
                             has_useful_args(kind_of(row_.phase, row_.category, row_.name));
      ondemand::object args;
      if (!is_wanted || field.value().get_object().get(args) != simdjson::SUCCESS) continue;
      if (const Error error = walk_fields(args, kArgFields, row_)) return error;
      continue;
    }
    for (const Field<KinetoRow>& known : kRowFields) {
      if (known.key == key) {
        row_.*known.token = token_of(field.value());
        break;
      }
    }
  }
  row_.grid = behind(row_.grid);
  row_.block = behind(row_.block);
  row_.kind = kind_of(row_.phase, row_.category, row_.name);
  walk_.header.has_rows |= !row_.phase.empty();
  sink_.on_row(row_);
  return simdjson::SUCCESS;
}

simdjson::error_code Walker::walk_rows(ondemand::array rows) {
  for (auto element : rows) {
    ondemand::value value;
    if (const Error error = std::move(element).get(value)) return error;
    walk_.error_offset = static_cast<std::size_t>(value.raw_json_token().data() - text_.data());
    ondemand::object row;
    const Error error = value.get_object().get(row);
    if (error == simdjson::INCORRECT_TYPE) {
      sink_.on_bad_row();
    } else if (error != simdjson::SUCCESS) {
      return error;
    } else if (const Error row_error = walk_row(row)) {
      return row_error;
    }
  }
  return simdjson::SUCCESS;
}

simdjson::error_code Walker::walk_devices(ondemand::array devices) {
  for (auto element : devices) {
    ondemand::value value;
    if (const Error error = std::move(element).get(value)) return error;
    ondemand::object object;
    if (value.get_object().get(object) != simdjson::SUCCESS) continue;
    KinetoDevice device;
    if (const Error error = walk_fields(object, kDeviceFields, device)) return error;
    if (walk_.header.devices.size() < kMaxDevices) walk_.header.devices.push_back(device);
  }
  return simdjson::SUCCESS;
}

simdjson::error_code Walker::walk_root_value(std::string_view key, ondemand::value value) {
  KinetoHeader& header = walk_.header;
  if (header.keys.size() < kMaxKeys) header.keys.push_back(key);
  ondemand::json_type type;
  if (const Error error = value.type().get(type)) return error;
  if (type == ondemand::json_type::array && (key == "traceEvents" || key == "deviceProperties")) {
    ondemand::array array;
    if (const Error error = value.get_array().get(array)) return error;
    if (key == "deviceProperties") return walk_devices(array);
    header.has_rows = true;
    return walk_rows(array);
  }
  if (type == ondemand::json_type::object && key == "distributedInfo") {
    ondemand::object object;
    if (const Error error = value.get_object().get(object)) return error;
    return walk_fields(object, kDistributedFields, header);
  }
  if (type == ondemand::json_type::object || type == ondemand::json_type::array)
    return simdjson::SUCCESS;
  const std::string_view token = token_of(value);
  for (const Field<KinetoHeader>& known : kHeaderFields) {
    if (known.key == key) header.*known.token = token;
  }
  if (is_setting(key) && header.settings.size() < kMaxSettings) {
    header.settings.emplace_back(key, token);
  }
  return simdjson::SUCCESS;
}

simdjson::error_code Walker::walk_root_object(ondemand::object root) {
  for (auto element : root) {
    ondemand::field field;
    if (const Error error = std::move(element).get(field)) return error;
    const std::string_view key = key_of(field.key());
    if (const Error error = walk_root_value(key, field.value())) return error;
  }
  return simdjson::SUCCESS;
}

simdjson::error_code Walker::walk(std::size_t readable_bytes) {
  ondemand::parser parser;
  ondemand::document document;
  if (const Error error =
          parser.iterate(text_.data(), text_.size(), readable_bytes).get(document)) {
    return error;
  }
  ondemand::json_type type;
  if (const Error error = document.type().get(type)) return error;
  if (type == ondemand::json_type::array) {
    walk_.header.is_array = true;
    ondemand::array rows;
    if (const Error error = document.get_array().get(rows)) return error;
    walk_.is_started = true;
    return walk_rows(rows);
  }
  ondemand::object root;
  if (const Error error = document.get_object().get(root)) return error;
  walk_.is_started = true;
  return walk_root_object(root);
}

}  // namespace

KinetoWalk walk_kineto(const PaddedText& text, KinetoRowSink& sink) {
  KinetoWalk walk;
  Walker walker(text, sink, walk);
  const simdjson::error_code error = walker.walk(text.size() + simdjson::SIMDJSON_PADDING);
  if (error != simdjson::SUCCESS) walk.error = simdjson::error_message(error);
  return walk;
}

}  // namespace gpuidle::import
