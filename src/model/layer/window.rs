//! A window that slides over the last two dimensions: what convolution and pooling have in common.

use super::{Check, Signal};
use crate::model::field::Values;
use crate::ops::window;

/// A window and its steps, each as [height, width].
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) kernel: [u64; 2],
    pub(super) stride: [u64; 2],
    pub(super) padding: [u64; 2],
    pub(super) dilation: [u64; 2],
}

impl Window {
    /// A pooling window: `stride` is the window's size where absent.
    pub(super) fn pooling(values: &Values) -> Self {
        let kernel = values.pair("kernel_size");
        let stride = if values.has("stride") { values.pair("stride") } else { kernel };
        Self { kernel, stride, padding: values.pair("padding"), dilation: [1, 1] }
    }

    /// A pooling window as operators take it.
    pub(super) fn pool(&self) -> window::Window {
        window::Window { size: self.kernel, stride: self.stride, padding: self.padding }
    }

    /// [channels, height, width] after the window has passed, with other channels; after PyTorch's formula
    /// `(size + 2·padding − dilation·(kernel − 1) − 1) / stride + 1`, rounded down.
    pub(super) fn slide(&self, name: &str, input: &Signal, channels: u64, cx: &mut Check) -> Option<Signal> {
        let mut sample = vec![channels];
        for (axis, size) in input.sample[1..].iter().enumerate() {
            let padded = self.padding[axis].checked_mul(2).and_then(|p| p.checked_add(*size));
            let reach = self.dilation[axis].checked_mul(self.kernel[axis] - 1).and_then(|r| r.checked_add(1));
            let (Some(padded), Some(reach)) = (padded, reach) else {
                cx.mistake(format!("{name}: the window's reach or the padded size leaves 64 bits"));
                return None;
            };
            let Some(room) = padded.checked_sub(reach) else {
                let axis = ["height", "width"][axis];
                cx.mistake(format!(
                    "{name}: the window reaches over {reach}, but the padded {axis} is only {padded} (input {})",
                    input.describe()
                ));
                return None;
            };
            sample.push(room / self.stride[axis] + 1);
        }
        cx.output(input.with_sample(sample))
    }

    /// PyTorch's bound on the padding of pooling: half the window.
    pub(super) fn check_pooling(&self, name: &str, cx: &mut Check) {
        if (0..2).any(|i| self.padding[i] > self.kernel[i] / 2) {
            cx.mistake_in("padding", format!("{name}: padding {:?} is more than half of the window {:?}", self.padding, self.kernel), None);
        }
    }
}
