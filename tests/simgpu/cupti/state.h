// SPDX-License-Identifier: Apache-2.0
// What the files of the simulated CUPTI share. CUPTI(name) marks an implementation; every other
// export is a generated stub. Rule for locks: the device lock of the simulated driver may be held
// on entry to operation() and host_wait(), so nothing here calls the hub's locking functions with
// a lock of its own held, and no client callback runs under a lock that those two take.
#pragma once

// Makes the declarations visible, as in the library proper.
#ifndef CUPTI_LIB
#define CUPTI_LIB
#endif
#include <cupti.h>

#include <cstdint>

#include "device/tool.h"

#define CUPTI(name) name

namespace simcupti {

/// The driver's hub; loads the simulated libcuda if it is not there. Null without one.
simgpu::Hub* hub();

/// Makes the driver call us if there is a reason to: a subscriber or an enabled kind.
void attach();
void set_has_subscriber(bool value);
void set_has_activity(bool value);

CUptiResult result(CUptiResult value);  // remembers errors for cuptiGetLastError

/// CLOCK_REALTIME, or its simulated equal on a virtual clock.
uint64_t timestamp_ns();

/// What cuptiGetVersion says.
uint32_t reported_version();

/// The first version whose subscribers can share CUPTI.
constexpr uint32_t kFirstSharedVersion = 130300;

/// Who gets records: the process-wide client of the calls without a subscriber (V1), or one of the
/// subscribers that share CUPTI (V2, from 13.3 on). Both at once are refused.
constexpr int kMaxSubscribers = 4;
constexpr int kProcessWide = kMaxSubscribers;
constexpr int kClients = kMaxSubscribers + 1;

/// Index of a subscriber that shares CUPTI; -1 for any other handle.
int shared_index(CUpti_SubscriberHandle handle);
/// Switches a kind of records on or off for a client.
CUptiResult set_kind(CUpti_ActivityKind kind, bool enable, int client);
/// The buffer callbacks of a sharing client; CUPTI's last argument, reserved, is null.
using SharedRequest = void (*)(uint8_t**, size_t*, size_t*, void*);
using SharedComplete = void (*)(uint8_t*, size_t, size_t, void*);
void register_shared_callbacks(int client, SharedRequest request, SharedComplete complete);
/// Stops all recording for a client and gives its buffer back.
void drop_client(int client);
bool has_process_wide_activity();
bool is_shared();  // a sharing subscriber exists

bool is_enabled(CUpti_ActivityKind kind);  // for any client
bool is_api_enabled(uint32_t domain, uint32_t cbid);

/// Queues a record for delivery once the device clock has passed `ready_ns`.
void queue_record(const void* record, size_t bytes, int64_t ready_ns);

/// Records by source, records.cpp.
void record_operation(const simgpu::Operation& operation);
void record_host_wait(const simgpu::HostWait& wait);
void record_call(const simgpu::Call& call);
void record_external_correlation(uint32_t correlation);
void record_resource(simgpu::ResourceEvent event, uint32_t context, uint32_t stream);
void record_overhead(CUpti_ActivityOverheadKind kind, int64_t start_ns, int64_t end_ns);
void dump_records(CUpti_ActivityKind kind);

/// Bytes of a record of this kind; 0 for kinds that there are none of.
size_t record_bytes(uint32_t kind);

/// Marks the times of a record that is still running as this CUPTI's version does.
void cut_running_record(void* record, int64_t now_ns);

/// Converts the times of records to the clock of the client's timestamp callback, if it has one.
class TimestampConversion {
 public:
  TimestampConversion();
  void apply(void* record) const;

 private:
  bool active_ = false;
  double slope_ = 1;
  int64_t from_ = 0;
  int64_t to_ = 0;
};

}  // namespace simcupti
