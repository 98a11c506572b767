// nll_loss: the mean of minus the log-probability of each row's target. A target of -100 is left out; any other outside the row stops the GPU,
// as PyTorch's assertion does.

typedef math_t<T> A;

__device__ __forceinline__ bool counts(i64 target, u64 columns) {
  if (target == -100) return false;
  if (target < 0 || target >= (i64)columns) __trap();
  return true;
}

// One block.
KERNEL nll_loss_forward(u64 rows, u64 columns, T *out, T *total_weight, VIEW input, const i64 *target) {
  In<T> x(input);
  A sum = A(0), weight = A(0);
  for (u64 i = threadIdx.x; i < rows; i += blockDim.x) {
    if (!counts(target[i], columns)) continue;
    sum -= widen(x.at(i * columns + target[i]));
    weight += A(1);
  }
  sum = block_reduce<Sum>(sum);
  weight = block_reduce<Sum>(weight);
  if (threadIdx.x != 0) return;
  out[0] = narrow<T>(sum / weight);
  total_weight[0] = narrow<T>(weight);
}

// `out` is zeros before.
KERNEL nll_loss_backward(u64 rows, u64 columns, T *out, const T *grad, const i64 *target, const T *total_weight) {
  u64 row = thread_index();
  if (row < rows && counts(target[row], columns)) out[row * columns + target[row]] = narrow<T>(-widen(grad[0]) / widen(total_weight[0]));
}
