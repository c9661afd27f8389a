// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/dump_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "libgpuidle/report/format.h"
#include "libgpuidle/report/json_report.h"
#include "libgpuidle/symbols/demangle.h"
#include "tools/gpuidle/record_words.h"

namespace gpuidle::cli {
namespace {

constexpr int kVersion = 1;
constexpr std::size_t kNameColumns = 100;

// An object that is begun: its type and times, the way every record starts.
report::JsonWriter object(const char* type, std::int64_t start_ns, std::int64_t end_ns) {
  report::JsonWriter json;
  json.begin_object().field("type", type).field("start_ns", start_ns).field("end_ns", end_ns);
  return json;
}
report::JsonWriter row_object(const char* type, std::uint32_t id) {
  report::JsonWriter json;
  json.begin_object().field("type", type).field("id", id);
  return json;
}
// JsonWriter puts each key of the outermost object on a line of its own. Inside strings it escapes
// line ends, so those that are left are its own.
std::string end(report::JsonWriter& json) {
  json.end_object();
  std::string line = json.take();
  line.erase(std::remove(line.begin(), line.end(), '\n'), line.end());
  return line + "\n";
}

std::string shape(const std::array<std::uint32_t, 3>& size) {
  return fmt::format("{}x{}x{}", size[0], size[1], size[2]);
}

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

void sizes(const char* key, const std::array<std::uint32_t, 3>& size, report::JsonWriter* json) {
  json->key(key).begin_array();
  for (const std::uint32_t n : size) json->value(n);
  json->end_array();
}

}  // namespace

DumpLines::DumpLines(const model::Recording& recording, std::int64_t origin_ns, bool is_json)
    : recording_(recording),
      tables_(recording.tables()),
      origin_ns_(origin_ns),
      is_json_(is_json),
      symbolizer_(recording.tables()) {}

std::string DumpLines::head() const {
  if (!is_json_) {
    return "# seconds since the start, duration, record; --json has every field\n";
  }
  report::JsonWriter json;
  json.begin_object().field("schema", "gpuidle.dump").field("version", kVersion);
  report::write_recording(recording_.info(), &json);
  return end(json);
}

std::string DumpLines::begin(const char* word, std::int64_t start_ns, std::int64_t end_ns) const {
  constexpr std::int64_t kSecond_ns = 1'000'000'000;
  const std::int64_t since_ns = start_ns - origin_ns_;
  const auto distance_ns = static_cast<std::uint64_t>(since_ns < 0 ? -since_ns : since_ns);
  return fmt::format("{}{}.{:09} {:>10}  {:<10}", since_ns < 0 ? '-' : '+',
                     distance_ns / kSecond_ns, distance_ns % kSecond_ns,
                     report::format_duration(end_ns - start_ns), word);
}

std::string DumpLines::text(model::StringId id) const {
  return report::elide(symbols::demangle(tables_.string(id)), kNameColumns);
}

std::string DumpLines::thread_of(model::ThreadId id) const {
  if (id == 0 || id >= tables_.threads().size()) return "thread not known";
  const model::Thread& thread = tables_.threads()[id];
  // Importers bring names that say so themselves: "thread 17 (python)".
  if (tables_.string(thread.name).substr(0, 7) == "thread ") return text(thread.name);
  std::string words = fmt::format("thread {}", thread.tid);
  if (thread.name != 0) words += " (" + text(thread.name) + ")";
  return words;
}

std::string DumpLines::line(const model::DeviceActivity& a) const {
  const model::StringId kernel_name =
      a.kernel < tables_.kernels().size() ? tables_.kernels()[a.kernel].name : 0;
  const model::StringId name = kernel_name != 0 ? kernel_name : a.name;
  const bool moves_bytes =
      a.kind == model::ActivityKind::memcpy || a.kind == model::ActivityKind::memset;
  if (is_json_) {
    report::JsonWriter json = object("activity", a.start_ns, a.end_ns);
    json.field("kind", word_of(a.kind)).field("device", a.device).field("context", a.context);
    json.field("stream", a.stream).field("correlation", a.correlation).field("graph", a.graph);
    json.field("kernel", a.kernel).field("name", tables_.string(name));
    if (moves_bytes) {
      json.field("bytes", a.bytes).field("copy", word_of(a.copy));
      json.field("source", word_of(a.source)).field("destination", word_of(a.destination));
      json.field("is_async", a.is_async);
    }
    return end(json);
  }
  std::string words = begin(word_of(a.kind), a.start_ns, a.end_ns);
  words += fmt::format(" device {} stream {}", a.device, a.stream);
  if (a.graph != 0) words += fmt::format(" graph {}", a.graph);
  words += a.correlation != 0 ? fmt::format(" call {}", a.correlation) : " call not known";
  if (moves_bytes) {
    words += fmt::format(", {} bytes", a.bytes);
    if (a.kind == model::ActivityKind::memcpy) words += fmt::format(" {}", word_of(a.copy));
    words += fmt::format(" ({} to {})", word_of(a.source), word_of(a.destination));
  }
  if (name != 0) words += ", " + text(name);
  if (kernel_name != 0) {
    const model::Kernel& kernel = tables_.kernels()[a.kernel];
    if (kernel.grid[0] != 0) {
      words += fmt::format(", {} blocks of {}", shape(kernel.grid), shape(kernel.block));
    }
  }
  return words + "\n";
}

std::string DumpLines::line(const model::ApiCall& c) const {
  const model::StringId name = c.api < tables_.apis().size() ? tables_.apis()[c.api].name : 0;
  if (is_json_) {
    report::JsonWriter json = object("call", c.enter_ns, c.exit_ns);
    json.field("api", tables_.string(name)).field("role", word_of(c.role));
    json.field("thread", c.thread).field("correlation", c.correlation);
    json.field("result", c.result).field("stack", c.stack);
    return end(json);
  }
  std::string words = begin("call", c.enter_ns, c.exit_ns);
  words += " " + (name != 0 ? text(name) : std::string("call of unknown name"));
  words += fmt::format(" ({}), call {}, {}", word_of(c.role), c.correlation, thread_of(c.thread));
  if (c.stack != 0) words += fmt::format(", stack {}", c.stack);
  if (c.result != 0) words += fmt::format(", returned {}", c.result);
  return words + "\n";
}

std::string DumpLines::line(const model::Marker& m) const {
  if (is_json_) {
    report::JsonWriter json = object("marker", m.start_ns, m.end_ns);
    json.field("kind", word_of(m.kind)).field("name", tables_.string(m.name));
    json.field("thread", m.thread);
    return end(json);
  }
  return begin("marker", m.start_ns, m.end_ns) +
         fmt::format(" {} {}, {}\n", word_of(m.kind), text(m.name), thread_of(m.thread));
}

std::string DumpLines::line(const model::Overhead& o) const {
  if (is_json_) {
    report::JsonWriter json = object("overhead", o.start_ns, o.end_ns);
    json.field("name", tables_.string(o.name)).field("thread", o.thread);
    json.field("is_profiler", o.is_profiler);
    return end(json);
  }
  return begin("overhead", o.start_ns, o.end_ns) +
         fmt::format(" {}, {}, {}\n", text(o.name), thread_of(o.thread),
                     o.is_profiler ? "of the profiler" : "of the program itself");
}

std::string DumpLines::line(const model::Unobserved& u) const {
  if (is_json_) {
    report::JsonWriter json = object("unobserved", u.start_ns, u.end_ns);
    json.field("reason", tables_.string(u.reason));
    return end(json);
  }
  return begin("unobserved", u.start_ns, u.end_ns) + " " + text(u.reason) + "\n";
}

std::string DumpLines::line(const model::RecordedGap& g) const {
  if (is_json_) {
    report::JsonWriter json = object("gap", g.start_ns, g.end_ns);
    json.field("device", g.device).field("closing_correlation", g.closing_correlation);
    return end(json);
  }
  std::string words = begin("gap", g.start_ns, g.end_ns) + fmt::format(" device {}", g.device);
  words += g.closing_correlation != 0 ? fmt::format(", closed by call {}\n", g.closing_correlation)
                                      : std::string(", closed by a call that is not known\n");
  return words;
}

std::string DumpLines::line(const model::ThreadSample& s) const {
  if (is_json_) {
    report::JsonWriter json = object("sample", s.start_ns, s.end_ns);
    json.field("thread", s.thread).field("is_child_process", s.is_child_process);
    json.field("activity", word_of(s.activity)).field("system_call", s.system_call);
    json.field("target", word_of(s.target)).field("stack", s.stack);
    json.field("has_counts", s.has_counts).field("cpu_ns", s.cpu_ns);
    json.field("run_queue_wait_ns", s.run_queue_wait_ns).field("throttled_ns", s.throttled_ns);
    json.field("major_faults", s.major_faults);
    return end(json);
  }
  std::string words = begin("sample", s.start_ns, s.end_ns) + " " + thread_of(s.thread);
  if (s.is_child_process) words += ", a child process";
  words += fmt::format(", {}", word_of(s.activity));
  if (s.target != model::WaitTarget::unknown) words += fmt::format(" for {}", word_of(s.target));
  if (s.system_call >= 0) words += fmt::format(" in system call {}", s.system_call);
  if (s.stack != 0) words += fmt::format(", stack {}", s.stack);
  const auto add_time = [&words](const char* what, std::uint64_t ns) {
    if (ns == 0) return;
    words += fmt::format(", {} {}", report::format_duration(static_cast<std::int64_t>(ns)), what);
  };
  add_time("on a processor", s.cpu_ns);
  add_time("ready without one", s.run_queue_wait_ns);
  add_time("throttled", s.throttled_ns);
  if (s.major_faults != 0) words += fmt::format(", {} major faults", s.major_faults);
  return words + "\n";
}

std::string DumpLines::kernel_line(model::KernelId id) const {
  const model::Kernel& k = tables_.kernels()[id];
  if (is_json_) {
    report::JsonWriter json = row_object("kernel", id);
    json.field("name", tables_.string(k.name));
    sizes("grid", k.grid, &json);
    sizes("block", k.block, &json);
    json.field("registers_per_thread", k.registers_per_thread);
    json.field("static_shared_bytes", k.static_shared_bytes);
    json.field("dynamic_shared_bytes", k.dynamic_shared_bytes);
    return end(json);
  }
  return fmt::format(
      "kernel {}: {}, {} blocks of {}, {} registers, {} + {} bytes of shared memory\n", id,
      text(k.name), shape(k.grid), shape(k.block), k.registers_per_thread, k.static_shared_bytes,
      k.dynamic_shared_bytes);
}

std::string DumpLines::module_line(model::ModuleId id) const {
  const model::Module& m = tables_.modules()[id];
  if (is_json_) {
    report::JsonWriter json = row_object("module", id);
    json.field("path", tables_.string(m.path)).field("build_id", hex(m.build_id));
    json.field("load_bias", m.load_bias).field("begin_address", m.begin_address);
    json.field("end_address", m.end_address);
    return end(json);
  }
  return fmt::format("module {}: {}, 0x{:x} to 0x{:x}, build id {}\n", id, text(m.path),
                     m.begin_address, m.end_address, m.build_id.empty() ? "none" : hex(m.build_id));
}

std::string DumpLines::thread_line(model::ThreadId id) const {
  const model::Thread& t = tables_.threads()[id];
  if (is_json_) {
    report::JsonWriter json = row_object("thread", id);
    json.field("pid", t.pid).field("tid", t.tid).field("name", tables_.string(t.name));
    return end(json);
  }
  return fmt::format("thread {}: process {}, {}\n", id, t.pid, thread_of(id));
}

std::string DumpLines::stack_line(model::StackId id) {
  std::size_t count = 0;
  const model::FrameId* frames = tables_.stack(id, &count);
  report::JsonWriter json = row_object("stack", id);
  json.key("frames").begin_array();
  std::string words = fmt::format("stack {}:\n", id);
  for (std::size_t i = 0; i < count; ++i) {
    const symbols::ResolvedFrame& frame = symbolizer_.resolve(frames[i]);
    if (is_json_) {
      json.begin_object().field("function", frame.function).field("module", frame.module);
      json.field("file", frame.file).field("line", frame.line).end_object();
      continue;
    }
    words += "  " + report::elide(frame.function, kNameColumns);
    if (!frame.file.empty()) {
      words += " (" + report::elide(frame.file, kNameColumns);
      if (frame.line != 0) words += fmt::format(":{}", frame.line);
      words += ")";
    } else if (!frame.module.empty()) {
      words += " (" + report::elide(frame.module, kNameColumns) + ")";
    }
    words += "\n";
  }
  if (!is_json_) return words;
  json.end_array();
  return end(json);
}

std::string DumpLines::device_line(const model::Device& d) const {
  if (is_json_) {
    report::JsonWriter json = row_object("device", d.ordinal);
    json.field("name", tables_.string(d.name)).field("multiprocessor_count", d.multiprocessors);
    json.field("compute_major", d.compute_major).field("compute_minor", d.compute_minor);
    json.field("memory_bytes", d.memory_bytes).field("merely_listed", d.merely_listed);
    return end(json);
  }
  return fmt::format("device {}: {}\n", d.ordinal, text(d.name));
}

}  // namespace gpuidle::cli
