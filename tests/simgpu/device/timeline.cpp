// SPDX-License-Identifier: Apache-2.0
#include "device/timeline.h"

#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>

#include "device/clock.h"
#include "device/settings.h"

namespace simgpu {
namespace {

int descriptor = -1;
bool opened = false;

void write_row(const char* row, int length) {
  ssize_t written = write(descriptor, row, static_cast<size_t>(length));
  (void)written;
}

const char* wait_name(WaitKind kind) {
  switch (kind) {
    case WaitKind::stream:
      return "stream_synchronize";
    case WaitKind::event:
      return "event_synchronize";
    case WaitKind::context:
      return "context_synchronize";
    case WaitKind::copy:
      return "copy";
    case WaitKind::free:
      return "free";
    case WaitKind::queue_full:
      return "queue_full";
    case WaitKind::stream_wait_event:
      return "stream_wait_event";
  }
  return "";
}

const char* kind_name(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kernel:
      return "kernel";
    case OperationKind::copy:
      return copy_kind_name(operation);
    case OperationKind::set:
      return "memset";
    case OperationKind::host_function:
      return "host_function";
    case OperationKind::graph_launch:
      return "graph";
    default:
      return nullptr;
  }
}

}  // namespace

const char* copy_kind_name(const Operation& operation) {
  auto on_host = [](MemoryKind kind) {
    return kind == MemoryKind::pageable || kind == MemoryKind::pinned;
  };
  if (operation.peer_device != operation.device) return "memcpy_ptop";
  if (on_host(operation.source)) {
    return on_host(operation.destination) ? "memcpy_htoh" : "memcpy_htod";
  }
  return on_host(operation.destination) ? "memcpy_dtoh" : "memcpy_dtod";
}

void open_timeline() {
  if (opened) return;
  opened = true;
  std::string name = settings().timeline_file;
  if (name.empty()) return;
  for (size_t at = name.find("%p"); at != std::string::npos; at = name.find("%p")) {
    name.replace(at, 2, std::to_string(getpid()));
  }
  descriptor = open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    std::fprintf(stderr, "simgpu: cannot write SIMGPU_TIMELINE file: %s\n", std::strerror(errno));
    return;
  }
  char row[400];
  int64_t now = now_ns();
  int length =
      std::snprintf(row, sizeof row,
                    "device,stream,kind,name,enqueue_ns,start_ns,end_ns,bytes,correlation,"
                    "context,thread,graph_exec,graph_node\n"
                    "-1,0,clock,realtime_offset,%" PRId64 ",%" PRId64 ",%" PRId64 ",0,0,0,0,0,0\n",
                    now, now, now + realtime_offset_ns());
  write_row(row, length);
}

void write_timeline(const Operation& operation) {
  if (descriptor < 0) return;
  const char* kind = kind_name(operation);
  if (kind == nullptr) return;
  char row[4096];
  const char* name = operation.name ? operation.name : "";
  const char* quote = std::strpbrk(name, ",\"") ? "\"" : "";
  int length = std::snprintf(row, sizeof row,
                             "%u,%u,%s,%s%.3000s%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRIu64
                             ",%u,%u,%u,%u,%" PRIu64 "\n",
                             operation.device, operation.stream, kind, quote, name, quote,
                             operation.enqueue_ns, operation.start_ns, operation.end_ns,
                             operation.bytes, operation.correlation, operation.context,
                             operation.thread_id, operation.graph_exec_id, operation.graph_node_id);
  write_row(row, length);
}

void write_timeline(const HostWait& wait) {
  if (descriptor < 0 || wait.kind == WaitKind::stream_wait_event) return;
  char row[512];
  int length = std::snprintf(
      row, sizeof row, "%u,%d,host_wait,%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",0,%u,%u,%u,0,0\n",
      wait.device, static_cast<int>(wait.stream), wait_name(wait.kind), wait.start_ns,
      wait.start_ns, wait.end_ns, wait.correlation, wait.context, wait.thread_id);
  write_row(row, length);
}

}  // namespace simgpu
