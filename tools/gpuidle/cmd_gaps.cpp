// SPDX-License-Identifier: Apache-2.0
//
// gpuidle gaps: the largest idle gaps, with their times, what opened and what closed them.
#include <memory>

#include "tools/gpuidle/command.h"
#include "tools/gpuidle/recording_view.h"

namespace gpuidle::cli {

void add_gaps(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("gaps", "The largest idle gaps and the calls around them");
  auto view = std::make_shared<RecordingView>();
  view->top = 10;
  view->add_options(*command, "gaps");
  command->callback([view, exit_code] {
    *exit_code = show(*view, view->top, report::text_gaps, report::json_gaps);
  });
}

}  // namespace gpuidle::cli
