#pragma once

#include "detforge/models/detector.h"
#include "detforge/structures/batch.h"
#include "detforge/train/lr_schedule.h"
#include "detforge/train/optimizer.h"
#include "support/test_data.h"

namespace detforge::test {

/// How far training may come from the reference's steps, relative.
struct StepsTolerance {
  double loss = 1e-4;        ///< of each term of the first step
  double later_loss = 1e-4;  ///< of later steps, which carry the differences of earlier ones
  double grad_norm = 3e-3;   ///< before clipping, where the case has it
  double change = 3e-3;  ///< L2 norm of the change of each tensor; the goal for gradients, whose
                         ///< sum the change is
};

/// Trains `model` on `batch` as steps.npz of the case did, and expects its losses, learning rates,
/// gradient norms and final weights.
void expect_steps(const ParityCase& parity_case,
                  Detector& model,
                  const Batch& batch,
                  const SgdOptions& sgd_options,
                  const LrSchedule& schedule,
                  const StepsTolerance& tolerance);

}  // namespace detforge::test
