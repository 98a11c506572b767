//! The convolutions that a library is asked for, so that trees can grow from its answers: layers of the usual networks at many widths, image sizes
//! and batches, as many again that are drawn at random near them, and as many drawn from anywhere. In f32, f16 and bf16; windows are square, and
//! depthwise convolutions, dilations and f64 are not among them.
//!
//! Invariant: the same list in every process.

use std::collections::{BTreeMap, BTreeSet};

use super::answers::call;
use super::rule::has_rule;
use crate::meta::DType;
use crate::scratch::{Convolution, Direction};

/// Batches, the common ones first.
const BATCHES: [u64; 20] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 100, 10, 20, 50, 24, 48, 96, 12, 40, 3, 6];
const COMMON: usize = 10;

const IMAGES: [u64; 14] = [28, 32, 48, 64, 96, 112, 128, 160, 192, 224, 256, 299, 384, 512];
const WIDTHS: [u64; 8] = [8, 16, 32, 48, 64, 80, 96, 128];
const SIDES: [u64; 31] =
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14, 16, 20, 24, 27, 28, 32, 40, 48, 54, 56, 64, 80, 96, 100, 112, 128, 160, 192, 224];

/// Drawn near the layers of networks, and drawn from anywhere.
const NEAR: usize = 80_000;
const ANYWHERE: usize = 70_000;

/// Elements of the largest tensor that is asked for: half of what cuDNN's 32-bit kernels count to.
const MOST_ELEMENTS: u64 = 1 << 29;

/// What a layer is but for its batch and type. The order is that of a list's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Layer {
    channels: u64,
    side: u64,
    outputs: u64,
    kernel: u64,
    stride: u64,
    padding: u64,
    groups: u64,
}

/// How much the answers for networks' own layers count.
const OF_NETWORKS: u32 = 4;

/// All questions, in three directions each, and how much their answers count.
#[must_use]
pub fn grid() -> Vec<(Convolution, u32)> {
    let mut draw = Draw(0);
    let networks: Vec<Layer> = networks().into_iter().collect();
    let channels: Vec<u64> =
        networks.iter().flat_map(|l| [l.channels, l.outputs]).collect::<BTreeSet<_>>().into_iter().filter(|&c| c <= 4096).collect();
    let mut asked = BTreeMap::new();
    for layer in &networks {
        for (dtype, batches) in [(DType::F32, 5), (DType::F16, 3), (DType::BF16, 2)] {
            for _ in 0..batches {
                asked.insert((*layer, dtype, *draw.one_of(&BATCHES[..COMMON])), OF_NETWORKS);
            }
        }
    }
    for number in 0..NEAR + ANYWHERE {
        let layer = if number < NEAR { draw.near(&networks, &channels) } else { draw.anywhere(&channels) };
        let dtype = *draw.one_of(&[DType::F32, DType::F32, DType::F16, DType::BF16]);
        let batches = if draw.below(10) < 7 { &BATCHES[..COMMON] } else { &BATCHES[..] };
        asked.entry((layer, dtype, *draw.one_of(batches))).or_insert(1);
    }
    let calls =
        |((layer, dtype, batch), weight): ((Layer, DType, u64), u32)| layer.calls(dtype, batch).into_iter().map(move |call| (call, weight));
    asked.into_iter().flat_map(calls).collect()
}

impl Layer {
    const fn window(channels: u64, side: u64, outputs: u64, [kernel, stride, padding]: [u64; 3]) -> Self {
        Self { channels, side, outputs, kernel, stride, padding, groups: 1 }
    }

    const fn product(channels: u64, side: u64, outputs: u64) -> Self {
        Self::window(channels, side, outputs, [1, 1, 0])
    }

    /// Its three directions; none where there is no such convolution, it needs no trees, or it is too large to be asked for.
    fn calls(self, dtype: DType, batch: u64) -> Vec<Convolution> {
        let Self { channels: c, side, outputs: k, kernel, stride, padding, groups } = self;
        let of = |direction| call(direction, dtype, [batch, c, side, side, k, kernel, kernel, stride, padding, 1, groups]).ok();
        let asked = |call: &Convolution| {
            let elements = |sizes: [u64; 4]| sizes.iter().product::<u64>();
            !has_rule(call) && elements(call.input).max(elements(call.output())) < MOST_ELEMENTS
        };
        [Direction::Forward, Direction::GradInput, Direction::GradWeight].into_iter().filter_map(of).filter(asked).collect()
    }
}

/// Layers of networks: the kinds that torchvision's have, at many widths and for many image sizes.
fn networks() -> BTreeSet<Layer> {
    let (window, product) = (Layer::window, Layer::product);
    let mut layers = BTreeSet::new();
    for image in IMAGES {
        for width in WIDTHS {
            // First layers: of ResNet, VGG, MobileNet, LeNet, AlexNet, of patches.
            let stems = [
                [7, 2, 3],
                [7, 1, 3],
                [3, 1, 1],
                [3, 1, 0],
                [3, 2, 1],
                [5, 1, 2],
                [5, 1, 0],
                [11, 4, 2],
                [4, 4, 0],
                [4, 2, 1],
                [16, 16, 0],
            ];
            for channels in [1, 3] {
                layers.extend(stems.map(|how| window(channels, image, width, how)));
            }
            // VGG and U-Net: pairs of 3×3, twice the channels at half the side.
            let mut side = image;
            for stage in 0..5 {
                let k = width << stage.min(3);
                layers.extend([[k, k], [k, 2 * k], [2 * k, k]].map(|[c, k]| window(c, side, k, [3, 1, 1])));
                layers.extend([window(k, side, 2 * k, [2, 2, 0]), product(2 * k, side, k)]);
                side /= 2;
                if side == 0 {
                    break;
                }
            }
            // ResNet with blocks of two and of three, ResNeXt, ConvNeXt, DenseNet, MobileNet and EfficientNet.
            let begins = if image > 64 { vec![image.div_ceil(4)] } else { vec![image, image.div_ceil(4)] };
            for begin in begins {
                let mut side = begin;
                for stage in 0..4 {
                    let k = width << stage;
                    layers.extend([window(k, side, k, [3, 1, 1]), window(2 * k, side, 2 * k, [3, 2, 1])]);
                    layers.extend([[3, 2, 1], [1, 2, 0], [5, 2, 2]].map(|how| window(k, side, 2 * k, how)));
                    layers.extend([window(4 * k, side, 8 * k, [1, 2, 0]), window(k, side, k, [5, 1, 2])]);
                    layers.extend(
                        [[k, 4 * k], [4 * k, k], [k, k], [2 * k, k], [k, 2 * k], [k, 6 * k], [6 * k, k]].map(|[c, k]| product(c, side, k)),
                    );
                    layers.extend((0..6).map(|grown| product(k + 64 * grown, side, 128)));
                    layers.insert(window(128, side, 32, [3, 1, 1]));
                    layers.extend([1, 2].map(|stride| Layer { groups: 32, ..window(2 * k, side, 2 * k, [3, stride, 1]) }));
                    // Squeeze and excitation, and a head.
                    layers.extend(
                        [[k, k / 4], [k / 4, k], [k, k / 16], [k / 16, k], [6 * k, k / 4], [k / 4, 6 * k]].map(|[c, k]| product(c, 1, k)),
                    );
                    layers.extend([1, 2, 10, 21].map(|classes| product(k, side, classes)));
                    side = side.div_ceil(2);
                }
            }
        }
    }
    // Small networks of digits and small pictures.
    for side in [28, 32] {
        for (channels, first) in [1, 3].into_iter().flat_map(|c| [4, 6, 8, 10, 16, 20, 32].map(|k| (c, k))) {
            for (kernel, padding) in [(3, 0), (3, 1), (5, 0), (5, 2)] {
                layers.insert(window(channels, side, first, [kernel, 1, padding]));
                let second = side + 2 * padding - kernel + 1;
                for (next, side) in [8, 12, 16, 20, 32, 40, 50, 64].into_iter().flat_map(|k| [(k, second), (k, second / 2)]) {
                    layers.extend([0, padding].map(|padding| window(first, side, next, [kernel, 1, padding])));
                    layers.extend([64, 120].map(|last| window(next, (side - kernel).div_ceil(2), last, [kernel, 1, 0])));
                }
            }
        }
    }
    layers.retain(|l| l.channels > 0 && l.outputs > 0 && l.side > 0 && l.channels % l.groups == 0 && l.outputs % l.groups == 0);
    layers
}

/// Numbers that look drawn at random (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// Channels: every other time of a network, else of any size, mostly a multiple of 8 or 32.
    fn channels(&mut self, known: &[u64]) -> u64 {
        if self.below(2) == 0 {
            return *self.one_of(known);
        }
        let power = 1 << self.below(11);
        let any = power + self.below(power);
        let multiple = *self.one_of(&[1, 8, 8, 32]);
        (any / multiple * multiple).max(multiple)
    }

    /// A network's layer with other channels or another side.
    fn near(&mut self, networks: &[Layer], known: &[u64]) -> Layer {
        let mut layer = *self.one_of(networks);
        if layer.groups == 1 {
            let which = self.below(3);
            if which != 0 {
                layer.channels = self.channels(known);
            }
            if which != 1 {
                layer.outputs = self.channels(known);
            }
        }
        if layer.side > 1 && self.below(2) == 0 {
            layer.side = *self.one_of(&SIDES);
        }
        layer
    }

    fn anywhere(&mut self, known: &[u64]) -> Layer {
        let (channels, outputs, side) = (self.channels(known), self.channels(known), *self.one_of(&SIDES));
        if self.below(2) == 0 {
            return Layer::product(channels, side, outputs);
        }
        let kernel = *self.one_of(&[1, 2, 3, 3, 3, 4, 5, 7]);
        let stride = if kernel == 1 { 2 } else { *self.one_of(&[1, 1, 2]) };
        let layer = Layer::window(channels, side, outputs, [kernel, stride, *self.one_of(&[0, kernel / 2])]);
        if self.below(8) != 0 {
            return layer;
        }
        let groups = *self.one_of(&[2, 4, 8, 16, 32]);
        let of_group = |draw: &mut Self| groups * draw.one_of(&[1, 2, 3, 4, 6, 8, 16, 26]);
        Layer { channels: of_group(self), outputs: of_group(self), groups, ..layer }
    }
}
