// SOLVER.*, TEST.* and the keys without a section.

#include "detforge/config/schema.h"

#define KEY DETFORGE_CONFIG_KEY

namespace detforge::config {
namespace {

std::vector<Key> solver_keys() {
  return {
      {KEY(solver.ims_per_batch), "images per step, over all ranks", {.min = 1}},
      {KEY(solver.reference_world_size),
       "ranks the recipe was made for: batch, rate and lengths are scaled to the actual number; 0 "
       "= off",
       {.min = 0}},
      {KEY(solver.reference_ims_per_batch),
       "images per step that BASE_LR is meant for: the rate is scaled to IMS_PER_BATCH; 0 = off "
       "(our "
       "key)",
       {.min = 0}},
      {KEY(solver.accumulation_steps),
       "parts that IMS_PER_BATCH is computed in, one after the other: the same weights in less "
       "memory (our key)",
       {.min = 1}},
      {KEY(solver.max_iter), "training steps", {.min = 1}},
      {KEY(solver.max_epochs),
       "passes over the training data; of this and MAX_ITER, the one that is set last counts (our "
       "key)",
       {.min = 0}},
      {KEY(solver.lr_scheduler_name),
       "learning rate over time, after warm-up",
       {.choices = {"WarmupMultiStepLR", "WarmupCosineLR", "WarmupStepWithFixedGammaLR"}}},
      {KEY(solver.base_lr),
       "learning rate for the whole batch of IMS_PER_BATCH",
       {.min = 0, .above_min = true}},
      {KEY(solver.base_lr_end), "learning rate at the end (WarmupCosineLR)", {.min = 0}},
      {KEY(solver.steps), "steps at which the rate is multiplied by GAMMA", {.min = 0}},
      {KEY(solver.steps_epochs),
       "the same in epochs; the one that is set last counts (our key)",
       {.min = 0}},
      {KEY(solver.gamma), "factor at each of STEPS", {.min = 0, .max = 1, .above_min = true}},
      {KEY(solver.num_decays),
       "equally spaced decays by GAMMA (WarmupStepWithFixedGammaLR)",
       {.min = 1}},
      {KEY(solver.rescale_interval), "starts the decay from its beginning where the warm-up ends"},
      {KEY(solver.warmup_factor), "share of the rate at the first step", {.min = 0, .max = 1}},
      {KEY(solver.warmup_iters), "length of the warm-up in steps", {.min = 0}},
      {KEY(solver.warmup_method), "shape of the warm-up", {.choices = {"linear", "constant"}}},
      {KEY(solver.momentum), "of SGD", {.min = 0, .max = 1}},
      {KEY(solver.nesterov), "Nesterov momentum"},
      {KEY(solver.weight_decay), "L2 decay of weights", {.min = 0}},
      {KEY(solver.weight_decay_norm), "L2 decay of normalisation parameters", {.min = 0}},
      {KEY(solver.weight_decay_bias), "L2 decay of biases; None = WEIGHT_DECAY", {.min = 0}},
      {KEY(solver.bias_lr_factor), "learning rate of biases relative to weights", {.min = 0}},
      {KEY(solver.checkpoint_period), "steps between checkpoints", {.min = 1}},
      {KEY(solver.checkpoint_period_epochs),
       "the same in epochs; the one that is set last counts (our key)",
       {.min = 0}},
      {KEY(solver.checkpoints_keep), "periodic checkpoints kept besides last and best", {.min = 0}},
      {KEY(solver.nonfinite_skip),
       "steps in a row with a loss or gradient that is not finite that are skipped before the run "
       "stops",
       {.min = 0}},
      {KEY(solver.grad_compression),
       "how gradients travel between ranks: fp16 and bf16 send half the bytes, powersgd a low-rank "
       "part of each matrix; what is lost is added to the next step's (our key)",
       {.choices = {"none", "fp16", "bf16", "powersgd"}}},
      {KEY(solver.powersgd_rank), "columns of each factor of powersgd (our key)", {.min = 1}},
      {KEY(solver.clip_gradients.enabled), "clips gradients before each step"},
      {KEY(solver.clip_gradients.clip_type),
       "value: each element; norm: the norm of each parameter's gradient; full_model: of all "
       "together",
       {.choices = {"value", "norm", "full_model"}}},
      {KEY(solver.clip_gradients.clip_value),
       "largest value or norm",
       {.min = 0, .above_min = true}},
      {KEY(solver.clip_gradients.norm_type), "exponent of the norm", {.min = 1}},
      {KEY(solver.amp.enabled),
       "mixed precision as in Detectron2: O1 with a dynamic loss scale; AMP 1 rules over it"},
  };
}

std::vector<Key> test_keys() {
  return {
      {KEY(test.eval_period), "steps between evaluations; 0 = only at the end", {.min = 0}},
      {KEY(test.eval_period_epochs),
       "the same in epochs; the one that is set last counts (our key)",
       {.min = 0}},
      {KEY(test.detections_per_image), "most detections kept per image", {.min = 1}},
      {KEY(test.max_dets),
       "most detections per image that the evaluation counts (COCO: 100)",
       {.min = 1}},
      {KEY(test.expected_results), "results to compare with at the end", {.available = {"[]"}}},
      {KEY(test.aug.enabled),
       "test-time augmentation: detforge eval joins the detections of several sizes of the image "
       "(evaluations during training do without)"},
      {KEY(test.aug.min_sizes), "its short sides", {.min = 1, .min_length = 1}},
      {KEY(test.aug.max_size), "its longest side", {.min = 1}},
      {KEY(test.aug.flip), "with flipped images too"},
      {KEY(test.precise_bn.enabled),
       "recomputes BN statistics before evaluation",
       {.available = {"false"}}},
      {KEY(test.precise_bn.num_iter), "batches used for that", {.min = 1}},
  };
}

std::vector<Key> ema_keys() {
  return {
      {KEY(model_ema.enabled),
       "keeps a moving average of the weights, which evaluations and best.pth use"},
      {KEY(model_ema.decay), "share of the average kept at each step", {.min = 0, .max = 1}},
      {KEY(model_ema.tau),
       "warm-up of DECAY: after TAU steps 63 % of it, decay * (1 - exp(-steps / TAU)); 0 = none "
       "(our "
       "key)",
       {.min = 0}},
  };
}

std::vector<Key> distributed_keys() {
  return {
      {KEY(distributed.timeout_s),
       "seconds that one rank may keep the others waiting before the run ends, naming it (our key)",
       {.min = 0, .above_min = true}},
      {KEY(distributed.bucket_mb),
       "MB of gradients that are summed over ranks together, while others are still computed (our "
       "key)",
       {.min = 0, .above_min = true}},
      {KEY(distributed.check_period),
       "steps between checks that all ranks have the same weights; 0 = only at the start (our key)",
       {.min = 0}},
  };
}

std::vector<Key> general_keys() {
  return {
      {KEY(deterministic),
       "the same bits for 1, 2, 4, 8, ... ranks: gradients are computed image by image and added "
       "in one order; slower (our key)"},
      {KEY(output_dir), "run folder"},
      {KEY(seed), "of all random numbers; -1 = drawn and recorded at the start", {.min = -1}},
      {KEY(vis_period),
       "steps between pictures of training batches; 0 = only the first",
       {.min = 0, .available = {"0"}}},
      {KEY(cudnn_benchmark), "cuDNN's search for the fastest kernels", {.available = {"false"}}},
      {KEY(float32_precision),
       "precision of f32 products on devices that have a faster one (TF32, HF32): high or medium; "
       "without effect on CPUs",
       {.choices = {"", "highest", "high", "medium"}}},
      {KEY(amp),
       "1 switches mixed precision of OPT_LEVEL on (key of the Ascend scripts)",
       {.choices = {"0", "1"}}},
      {KEY(opt_level),
       "mixed precision as in Apex: O1 maps of 16 bits; O2 weights too, with f32 masters; O3 "
       "without masters (key of the Ascend scripts)",
       {.choices = {"O0", "O1", "O2", "O3"}}},
      {KEY(loss_scale_value),
       "factor of the loss under mixed precision: a number or dynamic (key of the Ascend scripts)",
       {.min = 0, .above_min = true}},
      {KEY(half_type), "16-bit type of mixed precision (our key)", {.choices = {"fp16", "bf16"}}},
      {KEY(keep_norm_fp32),
       "O2, O3: parameters of norms stay f32; default = O2 true, O3 false (our key)",
       {.choices = {"default", "true", "false"}}},
      {KEY(master_weights),
       "O2, O3: updates go to f32 masters; default = O2 true, O3 false (our key)",
       {.choices = {"default", "true", "false"}}},
  };
}

}  // namespace

std::vector<Key> training_keys() {
  std::vector<Key> keys = solver_keys();
  for (const auto& part : {test_keys(), ema_keys(), distributed_keys(), general_keys()}) {
    keys.insert(keys.end(), part.begin(), part.end());
  }
  return keys;
}

}  // namespace detforge::config
