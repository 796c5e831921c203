#pragma once

#include "detforge/cli/arguments.h"

/// One function per subcommand, in the file of its name. Returns the exit status (0 done, 1 failed
/// run); what goes wrong is thrown. They print their results to stdout; progress is logged to
/// stderr.
namespace detforge {

int run_train(const TrainArguments& arguments);
int run_eval(const EvalArguments& arguments);
int run_predict(const PredictArguments& arguments);
int run_config(const ConfigArguments& arguments);
int run_make_shapes(const MakeShapesArguments& arguments);
int run_convert_dataset(const ConvertDatasetArguments& arguments);
int run_convert_weights(const ConvertWeightsArguments& arguments);
int run_inspect(const InspectArguments& arguments);
int run_bench(const BenchArguments& arguments);
int run_replay(const ReplayArguments& arguments);
int run_doctor(const DoctorArguments& arguments);

}  // namespace detforge
