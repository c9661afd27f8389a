// SPDX-License-Identifier: Apache-2.0
//
// The host's side of a Kineto trace: outermost calls, and stacks from the rows around them.
#include <catch2/catch.hpp>

#include "tests/unit/kineto_reading.h"

namespace gpuidle {
namespace {

using test::Everything;
using test::recording_of_rows;
using test::stack_text;
using Lines = std::vector<std::string>;

std::string row(const std::string& category, const std::string& name, const std::string& ts,
                const std::string& dur, const std::string& args = "", int tid = 9) {
  return R"json({"ph":"X","cat":")json" + category + R"json(","name":")json" + name +
         R"json(","pid":9,"tid":)json" + std::to_string(tid) + R"json(,"ts":)json" + ts +
         R"json(,"dur":)json" + dur + R"json(,"args":{)json" + args + "}}";
}

std::string join(const std::vector<std::string>& rows) {
  std::string text;
  for (const std::string& one : rows) text += (text.empty() ? "" : ",\n") + one;
  return text;
}

TEST_CASE("a driver call inside a runtime call is part of it", "[kineto]") {
  const auto recording = recording_of_rows(join({
      row("cuda_driver", "cuLaunchKernel", "11", "2", R"json("correlation": 6)json"),
      row("cuda_runtime", "cudaLaunchKernel", "10", "5", R"json("correlation": 5)json"),
      row("cuda_driver", "cuLaunchKernel", "20", "2", R"json("correlation": 7)json"),
      row("kernel", "k", "12", "1", R"json("correlation": 6, "device": 0)json"),
  }));
  const Everything all(*recording);
  REQUIRE(all.calls.size() == 2);
  CHECK(recording->tables().string(recording->tables().apis()[all.calls[0].api].name) ==
        "cudaLaunchKernel");
  CHECK(all.calls[0].role == model::ApiRole::launch);
  CHECK(all.calls[1].enter_ns == 20000);
  CHECK(recording->info().launch_calls == 2);
  REQUIRE(all.activities.size() == 1);
  CHECK(all.activities[0].correlation == all.calls[0].correlation);
}

TEST_CASE("an outer call of no role takes that of the call inside it", "[kineto]") {
  const auto recording = recording_of_rows(join({
      row("cuda_runtime", "cudaSomethingNew_v9000", "10", "5"),
      row("cuda_driver", "cuLaunchKernelEx", "11", "2", R"json("correlation": 6)json"),
      row("kernel", "k", "12", "1", R"json("correlation": 6)json"),
  }));
  const Everything all(*recording);
  REQUIRE(all.calls.size() == 1);
  CHECK(all.calls[0].role == model::ApiRole::launch);
  CHECK(all.calls[0].correlation == 6);
  CHECK(recording->tables().string(recording->tables().apis()[all.calls[0].api].name) ==
        "cudaSomethingNew");
}

TEST_CASE("neighbours that share a rounded time are not taken for nested", "[kineto]") {
  const Everything all(*recording_of_rows(join({
      row("Runtime", "cudaLaunchKernel", "10", "5", R"json("correlation": 1)json"),
      row("Runtime", "cudaLaunchKernel", "15", "0", R"json("correlation": 2)json"),
      row("Runtime", "cudaLaunchKernel", "15", "3", R"json("correlation": 3)json"),
      row("Runtime", "cudaLaunchKernel", "11", "1", R"json("correlation": 4)json", 8),
  })));
  CHECK(all.calls.size() == 4);
}

TEST_CASE("calls that neither feed nor stall a device are kept only if they enqueued", "[kineto]") {
  const Everything all(*recording_of_rows(join({
      row("cuda_runtime", "cudaGetDevice", "1", "1", R"json("correlation": 1)json"),
      row("cuda_runtime", "hipNovelty", "3", "1", R"json("correlation": 2)json"),
      row("kernel", "k", "5", "1", R"json("correlation": 2)json"),
  })));
  REQUIRE(all.calls.size() == 1);
  CHECK(all.calls[0].correlation == 2);
  CHECK(all.calls[0].role == model::ApiRole::other);
}

TEST_CASE("a launch has the stack of the rows around it, Python lines included", "[kineto]") {
  const auto recording = recording_of_rows(join({
      row("cuda_runtime", "cudaLaunchKernel", "50", "2", R"json("correlation": 1)json"),
      row("python_function", "train.py(12): main", "10", "90"),
      row("python_function", "nn.Module: Linear_0", "30", "50"),
      row("python_function", "<built-in method add of Tensor object at 0x7f00>", "45", "9"),
      row("python_function", "a(b).py(7): <lambda>", "40", "20"),
      row("cpu_op", "aten::add", "48", "5"),
      row("user_annotation", "ProfilerStep#3", "5", "99"),
      row("user_annotation", "forward", "20", "70"),
      row("python_function", "other.py(1): earlier", "11", "3"),
      row("python_function", "other.py(2): later", "51", "3"),
      row("python_function", "thread.py(3): elsewhere", "10", "90", "", 8),
  }));
  const Everything all(*recording);
  REQUIRE(all.calls.size() == 1);
  CHECK(stack_text(*recording, all.calls[0]) ==
        Lines{"aten::add", "<built-in method add of Tensor object>", "<lambda> a(b).py:7",
              "nn.Module: Linear", "forward", "main train.py:12"});
}

TEST_CASE("blocking calls have stacks, calls that do neither have none", "[kineto]") {
  const Everything all(*recording_of_rows(join({
      row("python_function", "train.py(12): main", "1", "90"),
      row("cuda_runtime", "cudaStreamSynchronize", "10", "2"),
      row("cuda_runtime", "cudaStreamWaitEvent", "20", "2"),
  })));
  REQUIRE(all.calls.size() == 2);
  CHECK(all.calls[0].stack != 0);
  CHECK(all.calls[1].stack == 0);
}

TEST_CASE("without Python rows the operator's call stack names the lines", "[kineto]") {
  const auto recording = recording_of_rows(join({
      row("Operator", "aten::conv2d", "10", "50",
          R"json("Call stack": "conv.py(440): _conv_forward;net.py(7): forward;train.py(3): <module>")json"),
      row("Operator", "aten::cudnn_convolution", "20", "30", R"json("Call stack": "")json"),
      row("Operator", "enumerate(DataLoader)", "5", "90",
          R"json("Call stack": "train.py(2): <module>")json"),
      row("Runtime", "cudaLaunchKernel", "30", "2", R"json("correlation": 1)json"),
  }));
  const Everything all(*recording);
  REQUIRE(all.calls.size() == 1);
  CHECK(stack_text(*recording, all.calls[0]) == Lines{"aten::cudnn_convolution", "aten::conv2d",
                                                      "_conv_forward conv.py:440",
                                                      "forward net.py:7", "<module> train.py:3"});
}

TEST_CASE("a row that seems to end inside the call it made still encloses it", "[kineto]") {
  const auto recording = recording_of_rows(join({
      row("cpu_op", "aten::copy_", "10", "5"),
      row("cpu_op", "aten::before", "5", "5"),
      row("cuda_runtime", "cudaMemcpyAsync", "10", "6", R"json("correlation": 1)json"),
  }));
  const Everything all(*recording);
  REQUIRE(all.calls.size() == 1);
  CHECK(stack_text(*recording, all.calls[0]) == Lines{"aten::copy_"});
}

TEST_CASE("a deep pile of rows is cut at its outer end", "[kineto]") {
  std::vector<std::string> rows;
  for (int i = 0; i < 1000; ++i) {
    rows.push_back(row("python_function", "f.py(" + std::to_string(i + 1) + "): f",
                       std::to_string(i), std::to_string(5000 - 2 * i)));
  }
  rows.push_back(
      row("cuda_runtime", "cudaLaunchKernel", "2000", "1", R"json("correlation": 1)json"));
  const auto recording = recording_of_rows(join(rows));
  const Everything all(*recording);
  REQUIRE(all.calls.size() == 1);
  const Lines lines = stack_text(*recording, all.calls[0]);
  REQUIRE(lines.size() == 128);
  CHECK(lines[0] == "f f.py:1000");
}

}  // namespace
}  // namespace gpuidle
