// SPDX-License-Identifier: Apache-2.0
//
// gpuidle report: how idle was each device, why, and which line of the program to look at.
#include <memory>
#include <string>

#include "tools/gpuidle/command.h"
#include "tools/gpuidle/job_view.h"
#include "tools/gpuidle/recording_view.h"

namespace gpuidle::cli {

void add_report(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("report", "How idle each GPU was, why, and which line");
  auto view = std::make_shared<RecordingView>();
  view->top = 5;
  view->add_options(*command, "findings and places (text)")
      ->expected(1, 100'000)
      ->description(std::string(kRecordingHelp) +
                    "; several, or a folder of them, are the ranks of one job");
  command->callback([view, command, exit_code] {
    view->is_top_given = command->count("--top") > 0;
    *exit_code = is_job(view->paths) ? show_job(*view)
                                     : show(*view, 0, report::text_report, report::json_report);
  });
}

}  // namespace gpuidle::cli
