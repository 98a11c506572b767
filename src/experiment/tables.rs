//! The tables of the language but the layers', as data: `[train]`, `[data]`, `[allocator]`, `[allocations]`, inputs and optimizers.

use crate::model::Loss;
use crate::model::field::{COUNT, Field, Interval, Kind, Literal, PAIR, SIZE, Variant};

/// Element types of floating tensors.
pub const DTYPES: &[&str] = &["f64", "f32", "f16", "bf16"];

/// The whole file.
pub const EXPERIMENT: &[Field] = &[
    Field::optional("description", Kind::Text, "none", "What the experiment shows, for people."),
    Field::optional("model", Kind::Table(MODEL), "an [allocations] file", "The network."),
    Field::optional("train", Kind::Table(TRAIN), "an [allocations] file", "The training loop."),
    Field::optional(
        "allocations",
        Kind::Table(ALLOCATIONS),
        "a network is trained",
        "Tensors made and dropped by hand, instead of [model] and [train].",
    ),
    Field::optional("data", Kind::Table(DATA), "batches are synthetic", "Where samples come from, and how they become batches."),
    Field::optional(
        "log",
        Kind::Table(LOG),
        "every loss is read when its step ends, and none is printed",
        "When losses are read and printed.",
    ),
    Field::optional("save", Kind::Table(SAVE), "nothing is saved", "When weights and state are saved."),
    Field::optional("allocator", Kind::Table(ALLOCATOR), "PyTorch's defaults", "Settings of the caching allocator, by PyTorch's names."),
    Field::optional(
        "sweep",
        SWEEP,
        "one case",
        "The same tables, with a list of values or a range at each leaf: the cases are their product, the last axis fastest.",
    ),
];

/// A sweep's leaves have no table of their own: they are read as the fields that they stand for.
const SWEEP: Kind = Kind::Table(&[]);

/// `[model]`.
pub const MODEL: &[Field] = &[
    Field::required("input", Kind::Tagged(INPUTS), "What one sample is."),
    Field::required("layers", Kind::Layers, "The layers, in order."),
    Field::optional("blocks", Kind::Blocks, "none", "Lists of layers by name, for `{ block = \"name\" }`."),
];

/// `[model] input`.
pub const INPUTS: &[Variant] = &[
    Variant {
        name: "features",
        doc: "Floating-point values of this shape; the batch comes in front.",
        body: Kind::List { of: &SIZE, least: 1, most: usize::MAX },
    },
    Variant { name: "tokens", doc: "Indices into a vocabulary.", body: Kind::Table(TOKENS) },
];

/// `{ tokens = { … } }`.
pub const TOKENS: &[Field] = &[
    Field::required("length", SIZE, "Tokens of one sample."),
    Field::required("vocabulary", SIZE, "How many different tokens there are."),
];

/// `{ from, to, by }`.
pub const RANGE: &[Field] = &[
    Field::required("from", COUNT, "The first."),
    Field::required("to", COUNT, "The last, included where the steps meet it."),
    Field::required("by", SIZE, "The step."),
];

/// `[train]`.
pub const TRAIN: &[Field] = &[
    Field::required("batch_size", SIZE, "Samples a micro-step."),
    Field::choice("dtype", DTYPES, "f32", "Type of parameters and activations."),
    Field::optional("amp", Kind::Choice(&["f16", "bf16"]), "off", "Autocast over forward and loss; f16 also has the gradient scaler."),
    Field::integer("steps", SIZE, 2, "Optimizer steps."),
    Field::integer("accumulation_steps", SIZE, 1, "Micro-steps a step; the loss is divided by it."),
    Field::with_default(
        "checkpointing",
        Kind::OneOf(&[Kind::Bool, Kind::Table(&[Field::required("segments", SIZE, "How many; the last is not checkpointed.")])]),
        Literal::Bool(false),
        "Recompute activations in backward: of every top-level layer, or of segments as checkpoint_sequential makes them.",
    ),
    Field::bool("no_grad", false, "Inference: no tape, no loss, no optimizer."),
    Field::choice("mode", &["train", "eval"], "train", "eval: evaluation modules and the loss, but no backward."),
    Field::choice("loss", Loss::NAMES, "sum", "The criterion; cross_entropy is over the last dimension."),
    Field::optional(
        "optimizer",
        Kind::Tagged(OPTIMIZERS),
        "allowed with no_grad and mode = \"eval\" only",
        "The optimizer, by PyTorch's name.",
    ),
    Field::optional(
        "keep_loss",
        Kind::Choice(&["item", "list", "total"]),
        "the next loss replaces it",
        "What the script does with each loss: reads it, keeps it in a list, or adds it up.",
    ),
    Field::bool("empty_cache", false, "Whether cached memory is given back after every step."),
    Field::optional(
        "lengths",
        Kind::OneOf(&[Kind::List { of: &SIZE, least: 1, most: usize::MAX }, Kind::Table(RANGE)]),
        "every step has the input's length",
        "Tokens only: a length for each step.",
    ),
    Field::choice("init", &["random", "reference"], "random", "reference: closed-form weights and batches, the same in any framework."),
    Field::integer("seed", COUNT, 0, "For random weights and batches."),
];

const LR: Field = Field::number("lr", Interval::NOT_NEGATIVE, 1e-3, "Learning rate.");
const MOMENTUM: Field = Field::number("momentum", Interval::NOT_NEGATIVE, 0.0, "Momentum factor; 0 keeps no buffer.");
const AMSGRAD: Field = Field::bool("amsgrad", false, "Keep the maximum of the second moment.");
const IMPLEMENTATION: Field = Field::choice(
    "implementation",
    &["foreach", "for_loop", "fused"],
    "foreach",
    "How the update runs: over all parameters at once, one by one, or in one kernel.",
);

const fn weight_decay(default: f64) -> Field {
    Field::number("weight_decay", Interval::NOT_NEGATIVE, default, "Weight decay.")
}

/// `[train] optimizer`.
pub const OPTIMIZERS: &[Variant] = &[
    Variant {
        name: "sgd",
        doc: "Stochastic gradient descent.",
        body: Kind::Table(&[
            LR,
            MOMENTUM,
            Field::bool("nesterov", false, "Nesterov's variant of momentum."),
            weight_decay(0.0),
            IMPLEMENTATION,
        ]),
    },
    Variant { name: "adam", doc: "Adam.", body: Kind::Table(&[LR, weight_decay(0.0), AMSGRAD, IMPLEMENTATION]) },
    Variant {
        name: "adamw",
        doc: "Adam with decoupled weight decay.",
        body: Kind::Table(&[LR, weight_decay(0.01), AMSGRAD, IMPLEMENTATION]),
    },
    Variant { name: "adagrad", doc: "Adagrad.", body: Kind::Table(&[LR, IMPLEMENTATION]) },
    Variant {
        name: "rmsprop",
        doc: "RMSprop.",
        body: Kind::Table(&[LR, MOMENTUM, Field::bool("centered", false, "Normalise by an estimate of the variance."), IMPLEMENTATION]),
    },
];

/// `[allocator]`.
pub const ALLOCATOR: &[Field] = &[
    Field::optional(
        "max_split_size_mb",
        SIZE,
        "unlimited",
        "Blocks of this many MiB and more are never split; at least large_segment_size_mb.",
    ),
    Field::optional(
        "roundup_power2_divisions",
        Kind::OneOf(&[SIZE, Kind::Text]),
        "no rounding",
        "Round requests up to steps between powers of two: one number, or text such as \"[256:1,512:2,>:8]\".",
    ),
    Field::optional(
        "garbage_collection_threshold",
        Kind::Number(Interval::INSIDE_UNIT),
        "off",
        "The share of memory_limit above which unused segments are given back.",
    ),
    Field::optional("expandable_segments", Kind::Bool, "false", "Whether segments grow in place."),
    Field::optional(
        "large_segment_size_mb",
        Kind::Integer { least: 11, most: i64::MAX as u64 },
        "20",
        "The segment that blocks between 1 MiB and 10 MiB share.",
    ),
    Field::optional(
        "max_non_split_rounding_mb",
        SIZE,
        "large_segment_size_mb",
        "How much larger than the request a block that may not be split can be and still be taken; at least large_segment_size_mb.",
    ),
    Field::optional(
        "memory_limit",
        Kind::OneOf(&[SIZE, Kind::Text]),
        "all of the GPU's memory",
        "Bytes that may be reserved: a number, or text such as \"512MiB\". More than the GPU has: what stands in for it has as much.",
    ),
    Field::optional(
        "settings",
        Kind::Text,
        "PyTorch's defaults",
        "PyTorch's own notation, as in PYTORCH_CUDA_ALLOC_CONF: \"max_split_size_mb:32,expandable_segments:True\". Keys beside it count more.",
    ),
];

/// `[allocations]`.
pub const ALLOCATIONS: &[Field] = &[Field::required(
    "steps",
    Kind::List { of: &Kind::Tagged(SCRIPT_STEPS), least: 1, most: usize::MAX },
    "Tensors made and dropped; each step gives a row.",
)];

/// A tensor of a script.
pub const TENSOR: &[Field] = &[
    Field::required("name", Kind::Text, "The variable."),
    Field::required("shape", Kind::List { of: &SIZE, least: 0, most: usize::MAX }, "Its shape; [] is one element."),
    Field::choice("dtype", DTYPES, "f32", "Its type."),
];

/// A sum in a script.
pub const SUM: &[Field] = &[
    Field::required("left", Kind::Text, "A variable."),
    Field::required("right", Kind::Text, "Another, or the same."),
    Field::required("into", Kind::Text, "The variable that takes the sum."),
];

/// `[allocations] steps`.
pub const SCRIPT_STEPS: &[Variant] = &[
    Variant {
        name: "alloc",
        doc: "`name = torch.empty(shape)`: the new tensor exists before an old one of that name dies.",
        body: Kind::Table(TENSOR),
    },
    Variant { name: "free", doc: "`del name`.", body: Kind::Text },
    Variant { name: "add", doc: "`into = left + right`.", body: Kind::Table(SUM) },
    Variant { name: "empty_cache", doc: "`torch.cuda.empty_cache()`: cached memory is given back.", body: Kind::Table(&[]) },
];

/// `[data]`.
pub const DATA: &[Field] = &[
    Field::optional("source", Kind::Tagged(SOURCES), "synthetic", "The files, by their format. Their paths are relative to this file."),
    Field::optional(
        "prepare",
        Kind::List { of: &Kind::Tagged(PREPARE), least: 0, most: usize::MAX },
        "samples are taken as they are",
        "What is done to each sample, in order.",
    ),
    Field::optional("shuffle", SIZE, "the order of the file", "Draw each sample from a buffer of this many that come next."),
    Field::bool("repeat", true, "Begin anew after the last sample."),
    Field::integer(
        "workers",
        Kind::Integer { least: 1, most: 1024 },
        1,
        "Threads that read and prepare. Batches are the same for any number.",
    ),
    Field::integer("prefetch", Kind::Integer { least: 0, most: 1 << 20 }, 2, "Batches made ready before they are asked for."),
    Field::bool("pinned", true, "Whether a GPU copies batches from page-locked memory."),
    Field::bool(
        "device_prefetch",
        false,
        "Copy the next batch to the device while a step runs: its inputs are there beside the step's own.",
    ),
];

/// `[log]`.
pub const LOG: &[Field] = &[Field::required("every", SIZE, "Steps from one loss that is waited for and printed to the next.")];

/// `[save]`.
pub const SAVE: &[Field] = &[Field::required("every", SIZE, "Steps from one save to the next, each in the place of the one before.")];

/// `[data] source`.
pub const SOURCES: &[Variant] = &[
    Variant {
        name: "synthetic",
        doc: "One random batch, used again and again; of the other keys only device_prefetch counts.",
        body: Kind::Table(&[]),
    },
    Variant { name: "npy", doc: "NumPy arrays; the first dimension counts samples.", body: Kind::Table(ARRAYS) },
    Variant { name: "idx", doc: "The format of the MNIST files, unpacked; the first dimension counts samples.", body: Kind::Table(ARRAYS) },
    Variant {
        name: "csv",
        doc: "Numbers in columns; the first line names them.",
        body: Kind::Table(&[
            Field::required("file", Kind::Text, "The file."),
            Field::optional(
                "target",
                Kind::OneOf(&[Kind::Text, Kind::List { of: &Kind::Text, least: 1, most: usize::MAX }]),
                "there is no target",
                "The column that is the target, or a list of them; the others are the input.",
            ),
        ]),
    },
    Variant {
        name: "text",
        doc: "Any file as bytes, each a token; the target of each token is the next.",
        body: Kind::Table(&[Field::required("file", Kind::Text, "The file.")]),
    },
    Variant {
        name: "tfrecord",
        doc: "Records of tf.train.Example with their checksums, as `runner pack` and TensorFlow write them.",
        body: Kind::Table(&[
            Field::required("file", Kind::Text, "The file."),
            Field::with_default("input", Kind::Text, Literal::Text("input"), "The feature that is the input."),
            Field::with_default("target", Kind::Text, Literal::Text("target"), "The feature that is the target, where there is one."),
        ]),
    },
];

/// Inputs and targets in a file each.
pub const ARRAYS: &[Field] = &[
    Field::required("input", Kind::Text, "The file of the inputs."),
    Field::optional("target", Kind::Text, "there is no target", "The file of the targets."),
];

const ANY: Interval = Interval { from: f64::NEG_INFINITY, from_included: false, to: f64::INFINITY, to_included: false };
const POSITIVE: Interval = Interval { from: 0.0, from_included: false, to: f64::INFINITY, to_included: false };

const ANY_NUMBER: Kind = Kind::Number(ANY);
const ANY_NUMBERS: &[Kind] = &[ANY_NUMBER, Kind::List { of: &ANY_NUMBER, least: 1, most: usize::MAX }];
const POSITIVE_NUMBER: Kind = Kind::Number(POSITIVE);
const POSITIVE_NUMBERS: &[Kind] = &[POSITIVE_NUMBER, Kind::List { of: &POSITIVE_NUMBER, least: 1, most: usize::MAX }];

/// `[data] prepare`.
pub const PREPARE: &[Variant] = &[
    Variant { name: "scale", doc: "Multiply the input by this.", body: ANY_NUMBER },
    Variant {
        name: "normalise",
        doc: "`(input - mean) / std`.",
        body: Kind::Table(&[
            Field::required("mean", Kind::OneOf(ANY_NUMBERS), "One number, or one for each index of the first dimension."),
            Field::required("std", Kind::OneOf(POSITIVE_NUMBERS), "One number, or one for each index of the first dimension."),
        ]),
    },
    Variant {
        name: "random_crop",
        doc: "Cut a window out of the last two dimensions, at a random place.",
        body: Kind::Table(&[
            Field::required("size", PAIR, "Height and width of the window."),
            Field::integer("padding", Kind::Integer { least: 0, most: 1 << 20 }, 0, "Zeros on each side before the cut."),
        ]),
    },
    Variant {
        name: "flip",
        doc: "Mirror the last dimension, now and then.",
        body: Kind::Table(&[Field::number("probability", Interval::UNIT, 0.5, "How often.")]),
    },
    Variant {
        name: "one_hot",
        doc: "Each label of the target becomes a 1 among this many zeros.",
        body: Kind::Integer { least: 1, most: 1 << 20 },
    },
    Variant {
        name: "pad",
        doc: "Fill the first dimension up, of the input and of a target that is as long.",
        body: Kind::Table(&[
            Field::required("length", Kind::Integer { least: 1, most: 1 << 32 }, "To this."),
            Field::number("value", ANY, 0.0, "With this."),
        ]),
    },
    Variant { name: "truncate", doc: "Cut the first dimension off here, of the input and of a target that is as long.", body: SIZE },
    Variant {
        name: "reshape",
        doc: "Give the input another shape with as many numbers.",
        body: Kind::List { of: &SIZE, least: 0, most: usize::MAX },
    },
    Variant {
        name: "cost",
        doc: "Wait so long for each sample, such as \"2ms\": what a slow disk or a remote store takes.",
        body: Kind::Text,
    },
];
