// SPDX-License-Identifier: Apache-2.0
//
// Both sides of the control block in one process, and what each does with a block that lies.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "libgpuidle/control/block_client.h"
#include "libgpuidle/control/block_name.h"
#include "libgpuidle/control/block_owner.h"

using namespace gpuidle;
using namespace gpuidle::control;

namespace {

constexpr std::int64_t kSecond_ns = 1'000'000'000;

std::string own_path(pid_t pid = getpid()) {
  BlockName name;
  name.uid = geteuid();
  name.pid = static_cast<std::uint32_t>(pid);
  name.pid_namespace = pid_namespace("self").value();
  return "/dev/shm/" + name.text();
}

// A block of this process, gone at the end of the test.
struct Owned {
  Owned() { REQUIRE(owner.create("0.1.0").ok()); }
  ~Owned() { owner.remove(); }
  BlockOwner owner;
};

void overwrite(const std::string& path, const std::vector<unsigned char>& bytes) {
  const int fd = open(path.c_str(), O_WRONLY);
  REQUIRE(fd >= 0);
  REQUIRE(pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  close(fd);
}

std::vector<unsigned char> random_bytes(unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<unsigned char> bytes(kBlockBytes);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(generator());
  return bytes;
}

}  // namespace

TEST_CASE("names of blocks read back, and nothing else does", "[control][unit]") {
  const BlockName name{1000, 4711, 4026531836};
  CHECK(name.text() == "gpuidle.1000.4711.4026531836");
  const auto parsed = BlockName::parse(name.text());
  REQUIRE(parsed.has_value());
  CHECK(parsed->uid == 1000);
  CHECK(parsed->pid == 4711);
  CHECK(parsed->pid_namespace == 4026531836);
  for (const char* text : {"", "gpuidle.", "gpuidle.1.2", "gpuidle.1.2.3.4", "gpuidle.-1.2.3",
                           "gpuidle.1.0.3", "gpuidle.1.99999999999.3", "gpuidle.a.2.3",
                           "gpuidle.1.2.99999999999999999999999", "sem.x"}) {
    CAPTURE(text);
    CHECK_FALSE(BlockName::parse(text).has_value());
  }
}

TEST_CASE("a block is of one page, for its user alone, and goes with its owner",
          "[control][unit]") {
  {
    Owned owned;
    struct stat facts {};
    REQUIRE(stat(own_path().c_str(), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 0600);
    CHECK(static_cast<std::size_t>(facts.st_size) == kBlockBytes);
    CHECK(static_cast<std::size_t>(facts.st_blocks) * 512 >=
          kBlockBytes);  // reserved, so that no touch of it can fail
  }
  CHECK(access(own_path().c_str(), F_OK) != 0);
}

TEST_CASE("a request comes through once, with what it says", "[control][unit]") {
  Owned owned;
  base::Result<BlockClient> client = BlockClient::open(getpid());
  REQUIRE(client.ok());
  Request request;
  request.command = Command::start;
  request.duration_ns = 30 * kSecond_ns;
  request.has_lease = true;
  request.output = "/tmp/%p.gpuidle";
  const auto number = client.value().send(request);
  REQUIRE(number.ok());
  const Request heard = owned.owner.wait(kSecond_ns);
  CHECK(heard.number == number.value());
  CHECK(heard.command == Command::start);
  CHECK(heard.duration_ns == 30 * kSecond_ns);
  CHECK(heard.has_lease);
  CHECK(heard.output == "/tmp/%p.gpuidle");
  CHECK(owned.owner.wait(1).command == Command::none);
  owned.owner.answer(heard, Answer::refused, "no\ndevice");
  const auto view = client.value().view();
  REQUIRE(view.ok());
  CHECK(view.value().answered == number.value());
  CHECK(view.value().answer == Answer::refused);
  CHECK(view.value().text == "no?device");  // nothing that moves a terminal's cursor
}

TEST_CASE("a request wakes an owner that sleeps", "[control][unit]") {
  Owned owned;
  base::Result<BlockClient> client = BlockClient::open(getpid());
  REQUIRE(client.ok());
  Request heard;
  std::thread sleeper([&] { heard = owned.owner.wait(600 * kSecond_ns); });
  Request stop;
  stop.command = Command::stop;
  REQUIRE(client.value().send(stop).ok());
  sleeper.join();  // without the wake-up the test runs into ctest's time limit
  CHECK(heard.command == Command::stop);
}

TEST_CASE("counters and paths are read as they were written", "[control][unit]") {
  Owned owned;
  owned.owner.note_recording("/tmp/a.gpuidle", 5);
  owned.owner.set_state(State::recording, StartedBy::settings);
  owned.owner.add_own_thread(17);
  std::vector<DeviceTotals> devices(kMaxDevices + 3);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    devices[i].device = static_cast<std::uint32_t>(i);
    devices[i].busy_ns = 10;
    devices[i].idle_ns = 20;
    devices[i].gaps = 3;
  }
  Counters counters;
  counters.activities = 7;
  counters.file_bytes = 99;
  counters.devices = devices.data();
  counters.device_count = devices.size();
  owned.owner.publish(counters);
  const auto client = BlockClient::open(getpid());
  REQUIRE(client.ok());
  const auto read = client.value().view();
  REQUIRE(read.ok());
  const BlockView& view = read.value();
  CHECK(view.state == State::recording);
  CHECK(view.started_by == StartedBy::settings);
  CHECK(view.trace_path == "/tmp/a.gpuidle");
  CHECK(view.recordings == 1);
  CHECK(view.own_threads[0] == 17);
  CHECK(view.counters.activities == 7);
  CHECK(view.counters.file_bytes == 99);
  REQUIRE(view.devices.size() == kMaxDevices);
  CHECK(view.devices[15].device == 15);
  CHECK(view.devices[15].busy_ns == 10);
  CHECK(view.devices[15].idle_ns == 20);
  CHECK(view.devices[15].gaps == 3);
}

TEST_CASE("a block of the wrong size, a link or a folder is refused", "[control][unit]") {
  const std::string path = own_path();
  SECTION("wrong size") {
    Owned owned;
    REQUIRE(truncate(path.c_str(), 100) == 0);
    const auto client = BlockClient::open(getpid());
    REQUIRE_FALSE(client.ok());
    CHECK(client.status().code() == base::StatusCode::corrupt);
    REQUIRE(truncate(path.c_str(), kBlockBytes) == 0);
  }
  SECTION("link") {
    REQUIRE(symlink("/etc/passwd", path.c_str()) == 0);
    const auto client = BlockClient::open(getpid());
    unlink(path.c_str());
    REQUIRE_FALSE(client.ok());
    CHECK(client.status().message().find("is a link") != std::string::npos);
  }
  SECTION("folder") {
    REQUIRE(mkdir(path.c_str(), 0700) == 0);
    const auto client = BlockClient::open(getpid());
    rmdir(path.c_str());
    REQUIRE_FALSE(client.ok());
    CHECK(client.status().code() == base::StatusCode::corrupt);
  }
  SECTION("none") {
    const auto client = BlockClient::open(getpid());
    REQUIRE_FALSE(client.ok());
    CHECK(client.status().code() == base::StatusCode::not_found);
  }
}

TEST_CASE("a block that is cut while it is in use is an error and no signal", "[control][unit]") {
  Owned owned;
  base::Result<BlockClient> client = BlockClient::open(getpid());
  REQUIRE(client.ok());
  const base::Result<BlockView> before = client.value().view();
  REQUIRE(before.ok());
  REQUIRE(truncate(own_path().c_str(), 0) == 0);
  CHECK_FALSE(client.value().view().ok());
  client.value().wait_for_change(before.value(), 1'000'000);
  client.value().beat();
  REQUIRE(truncate(own_path().c_str(), kBlockBytes) == 0);
}

TEST_CASE("no random page is believed, by the client or by the owner", "[control][unit]") {
  Owned owned;
  base::Result<BlockClient> client = BlockClient::open(getpid());
  REQUIRE(client.ok());
  int refused = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    overwrite(own_path(), random_bytes(seed));
    if (!client.value().view().ok()) ++refused;
    CHECK_FALSE(BlockClient::open(getpid()).ok());
    const Request heard = owned.owner.wait(1);
    CHECK(heard.output.size() <= kMaxPathBytes);
    CHECK(heard.duration_ns >= 0);
    owned.owner.answer(heard, Answer::done, "x");
    owned.owner.publish({});
  }
  CHECK(refused == 500);
}

TEST_CASE("a block of a process that was killed is swept, one of a living process is not",
          "[control][unit]") {
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    BlockOwner owner;
    const char is_made = owner.create("0.1.0").ok() ? 'y' : 'n';
    if (write(ready[1], &is_made, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char is_made = 'n';
  REQUIRE(read(ready[0], &is_made, 1) == 1);
  REQUIRE(is_made == 'y');
  const std::string path = own_path(child);
  remove_stale_blocks();
  CHECK(access(path.c_str(), F_OK) == 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  remove_stale_blocks();
  CHECK(access(path.c_str(), F_OK) != 0);
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("a block of an earlier process with this number is replaced", "[control][unit]") {
  const std::string path = own_path();
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  REQUIRE(fd >= 0);
  close(fd);
  Owned owned;
  CHECK(BlockClient::open(getpid()).ok());
}

TEST_CASE("where no file may grow there is no block, and no SIGXFSZ", "[control][unit]") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 100;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  BlockOwner owner;
  const base::Status status = owner.create("0.1.0");
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK_FALSE(status.ok());
  CHECK(status.message().find("RLIMIT_FSIZE") != std::string::npos);
  CHECK_FALSE(owner.exists());
  CHECK(access(own_path().c_str(), F_OK) != 0);
}

TEST_CASE("without a block everything is allowed and does nothing", "[control][unit]") {
  BlockOwner owner;
  CHECK(owner.wait(1).command == Command::none);
  owner.publish({});
  owner.set_state(State::recording, StartedBy::settings);
  owner.answer({}, Answer::done, "");
  owner.remove();
  CHECK_FALSE(owner.exists());
}
