//! The named steps between a file's sample and the model's. Each is said twice: what it does to a layout, before anything runs, and what
//! it does to a sample. Random steps draw from the sample's own numbers, so that it does not matter who prepares it.

use std::time::Duration;

use super::random::Random;
use super::sample::{Array, Layout, Part, Sample, elements};
use crate::meta::in_short;

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Multiplies the input.
    Scale {
        /// By this.
        factor: f64,
    },
    /// `(input − mean) / std`, for each index of the first dimension, or for all alike.
    Normalise {
        /// One, or one a channel.
        mean: Vec<f64>,
        /// One, or one a channel.
        std: Vec<f64>,
    },
    /// Cuts a window out of the last two dimensions, after zeros were put around them.
    RandomCrop {
        /// Height and width of the window.
        size: [u64; 2],
        /// Zeros on each side.
        padding: u64,
    },
    /// Mirrors the last dimension, now and then.
    Flip {
        /// How often.
        probability: f64,
    },
    /// Each whole number of the target becomes a 1 among zeros.
    OneHot {
        /// How many classes there are.
        classes: u64,
    },
    /// Fills the first dimension up, of the input and of a target that is as long.
    Pad {
        /// To this.
        length: u64,
        /// With this.
        value: f64,
    },
    /// Cuts the first dimension off, of the input and of a target that is as long.
    Truncate {
        /// At this.
        length: u64,
    },
    /// Gives the input another shape with as many elements.
    Reshape {
        /// This.
        shape: Vec<u64>,
    },
    /// Waits: what a slow disk or a remote store takes, without a processor's time.
    Cost {
        /// So long.
        time: Duration,
    },
}

impl Step {
    /// The name in experiment files.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Scale { .. } => "scale",
            Self::Normalise { .. } => "normalise",
            Self::RandomCrop { .. } => "random_crop",
            Self::Flip { .. } => "flip",
            Self::OneHot { .. } => "one_hot",
            Self::Pad { .. } => "pad",
            Self::Truncate { .. } => "truncate",
            Self::Reshape { .. } => "reshape",
            Self::Cost { .. } => "cost",
        }
    }

    /// Whether two runs of it on one sample may differ.
    #[must_use]
    pub const fn is_random(&self) -> bool {
        matches!(self, Self::RandomCrop { .. } | Self::Flip { .. })
    }

    /// What becomes of a layout.
    ///
    /// # Errors
    /// A sentence where the step cannot take such samples.
    pub fn layout(&self, layout: &mut Layout) -> Result<(), String> {
        let input = &mut layout.input;
        match self {
            Self::Scale { .. } => input.whole = false,
            Self::Normalise { mean, std } => {
                for (name, list) in [("mean", mean), ("std", std)] {
                    let channels = input.shape.first().copied().unwrap_or(1);
                    if list.len() != 1 && list.len() as u64 != channels {
                        return Err(format!(
                            "`{name}` has {} numbers, but samples of shape {:?} have {channels} channels",
                            list.len(),
                            input.shape
                        ));
                    }
                }
                input.whole = false;
            }
            Self::RandomCrop { size, padding } => {
                let (_, [height, width]) = plane(&input.shape)?;
                for (name, wanted, has) in [("high", size[0], height), ("wide", size[1], width)] {
                    let has = padding.checked_mul(2).and_then(|p| p.checked_add(has)).ok_or("the padding is too large")?;
                    if wanted > has {
                        return Err(format!(
                            "the window is {wanted} {name}, but samples of shape {:?} are {has} with the padding",
                            input.shape
                        ));
                    }
                }
                let rank = input.shape.len();
                input.shape[rank - 2..].copy_from_slice(size);
            }
            Self::Flip { .. } => {
                if input.shape.is_empty() {
                    return Err("a sample is a single number, which has no sides".to_owned());
                }
            }
            Self::OneHot { classes } => {
                let target = layout.target.as_mut().ok_or("the data has no target")?;
                if !target.whole {
                    return Err("the target has fractions, and classes are whole numbers".to_owned());
                }
                target.shape.push(*classes);
            }
            Self::Pad { length, .. } => resize(layout, |n| n.max(*length))?,
            Self::Truncate { length } => resize(layout, |n| n.min(*length))?,
            Self::Reshape { shape } => {
                if elements(shape) != elements(&input.shape) {
                    return Err(format!("a sample of shape {:?} does not fill {shape:?}", input.shape));
                }
                input.shape.clone_from(shape);
            }
            Self::Cost { .. } => {}
        }
        Ok(())
    }

    /// What becomes of a sample.
    ///
    /// # Errors
    /// A sentence where this sample is not like the others.
    pub(super) fn apply(&self, sample: &mut Sample, random: &mut Random) -> Result<(), String> {
        let input = &mut sample.input;
        match self {
            Self::Scale { factor } => input.values.iter_mut().for_each(|v| *v *= factor),
            Self::Normalise { mean, std } => normalise(input, mean, std),
            Self::RandomCrop { size, padding } => crop(input, *size, *padding, random)?,
            Self::Flip { probability } => {
                if random.unit() < *probability {
                    let width = input.shape.last().and_then(|&w| usize::try_from(w).ok()).unwrap_or(1);
                    input.values.chunks_mut(width.max(1)).for_each(<[f64]>::reverse);
                }
            }
            Self::OneHot { classes } => {
                let target = sample.target.as_mut().ok_or("the sample has no target")?;
                one_hot(target, *classes)?;
            }
            Self::Pad { length, value } => fit(sample, |n| n.max(*length), *value),
            Self::Truncate { length } => fit(sample, |n| n.min(*length), 0.0),
            Self::Reshape { shape } => {
                if elements(shape) != Some(input.values.len()) {
                    return Err(format!("has shape {:?}, which does not fill {shape:?}", input.shape));
                }
                input.shape.clone_from(shape);
            }
            Self::Cost { time } => std::thread::sleep(*time),
        }
        Ok(())
    }
}

/// The last two dimensions, and how many planes of them there are.
fn plane(shape: &[u64]) -> Result<(usize, [u64; 2]), String> {
    match shape {
        [lead @ .., height, width] => Ok((elements(lead).unwrap_or(1), [*height, *width])),
        _ => Err(format!("samples of shape {shape:?} have no height and width")),
    }
}

/// Whether a target runs along with its input, one element (or row) each.
fn runs_along(input: &[u64], target: &[u64]) -> bool {
    !target.is_empty() && target.first() == input.first()
}

fn resize(layout: &mut Layout, length: impl Fn(u64) -> u64) -> Result<(), String> {
    let along = layout.target.as_mut().filter(|t| runs_along(&layout.input.shape, &t.shape));
    let first = |part: &mut Part| match part.shape.first_mut() {
        Some(first) => {
            *first = length(*first);
            Ok(())
        }
        None => Err("a sample is a single number, which has no length".to_owned()),
    };
    if let Some(target) = along {
        first(target)?;
    }
    first(&mut layout.input)
}

fn fit(sample: &mut Sample, length: impl Fn(u64) -> u64, value: f64) {
    let along = sample.target.as_mut().filter(|t| runs_along(&sample.input.shape, &t.shape));
    for array in along.into_iter().chain([&mut sample.input]) {
        let Some(first) = array.shape.first_mut() else { continue };
        *first = length(*first);
        array.values.resize(elements(&array.shape).expect("the layout was checked"), value);
    }
}

fn normalise(input: &mut Array, mean: &[f64], std: &[f64]) {
    let channels = input.shape.first().and_then(|&c| usize::try_from(c).ok()).unwrap_or(1).max(1);
    let each = input.values.len().div_ceil(channels).max(1);
    let pick = |list: &[f64], channel: usize| list.get(channel).or(list.first()).copied().unwrap_or_default();
    for (channel, values) in input.values.chunks_mut(each).enumerate() {
        let (mean, std) = (pick(mean, channel), pick(std, channel));
        values.iter_mut().for_each(|v| *v = (*v - mean) / std);
    }
}

fn crop(input: &mut Array, size: [u64; 2], padding: u64, random: &mut Random) -> Result<(), String> {
    let (planes, from) = plane(&input.shape)?;
    let room = |has: u64, wanted: u64| (has + 2 * padding).checked_sub(wanted);
    let (Some(down), Some(right)) = (room(from[0], size[0]), room(from[1], size[1])) else {
        return Err(format!("has shape {:?}, which is smaller than the window", input.shape));
    };
    let (top, left) = (random.below(down + 1), random.below(right + 1));
    let mut values = Vec::with_capacity(planes * elements(&size).unwrap_or(0));
    let inside = |at: u64, has: u64| at.checked_sub(padding).filter(|i| *i < has);
    for plane in 0..planes as u64 {
        for y in top..top + size[0] {
            for x in left..left + size[1] {
                let at = inside(y, from[0]).zip(inside(x, from[1])).map(|(y, x)| (plane * from[0] + y) * from[1] + x);
                values.push(at.and_then(|at| input.values.get(usize::try_from(at).ok()?)).copied().unwrap_or(0.0));
            }
        }
    }
    let rank = input.shape.len();
    input.shape[rank - 2..].copy_from_slice(&size);
    input.values = values;
    Ok(())
}

fn one_hot(target: &mut Array, classes: u64) -> Result<(), String> {
    let width = usize::try_from(classes).expect("the layout was checked");
    let mut values = vec![0.0; target.values.len() * width];
    for (&class, row) in target.values.iter().zip(values.chunks_mut(width)) {
        let hot = row.get_mut(class as usize).filter(|_| class >= 0.0 && class.fract() == 0.0);
        *hot.ok_or_else(|| format!("the label {} is out of range: labels are 0 to {}", in_short(class), classes - 1))? = 1.0;
    }
    target.shape.push(classes);
    target.values = values;
    Ok(())
}
