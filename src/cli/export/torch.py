import csv
import os
import subprocess
import sys

COLUMNS = (
    "case,batch_size,dtype,optimizer,accumulation_steps,checkpointing,no_grad,step,micro_step,phase,"
    "predicted_allocated,measured_allocated,error_allocated,predicted_peak,measured_peak,error_peak,"
    "predicted_reserved,measured_reserved,error_reserved,"
    "parameters,buffers,gradients,optimizer_state,activations,inputs,workspace,other,status"
).split(",")


def number_of_case():
    """Which case this process runs: the argument, or the only one there is."""
    if len(sys.argv) > 1:
        return int(sys.argv[1])
    return 0 if len(CASES) == 1 else None


NUMBER = number_of_case()
if NUMBER is None:
    # Each case starts with an allocator that holds nothing: a process of its own.
    csv.writer(sys.stdout, lineterminator="\n").writerow(COLUMNS)
    sys.stdout.flush()
    sys.exit(max(subprocess.call([sys.executable, __file__, str(n)]) for n in range(len(CASES))))

CASE = CASES[NUMBER]
SETTINGS = {key: value for key, value in CASE.get("allocator", {}).items() if key != "memory_limit"}
if SETTINGS:
    # The allocator reads it once, when torch is imported.
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = ",".join(f"{key}:{value}" for key, value in SETTINGS.items())

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint as run_checkpointed

DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


# Layers. Each function gives what makes a module for a sample's shape, and the shape that comes out.


class Checkpointed(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        if torch.is_grad_enabled():
            return run_checkpointed(self.inner, x, use_reentrant=False)
        return self.inner(x)


class ResidualModule(nn.Module):
    def __init__(self, body, shortcut, inplace):
        super().__init__()
        self.body = body
        self.shortcut = shortcut
        self.inplace = inplace

    def forward(self, x):
        y = self.body(x)
        skipped = x if self.shortcut is None else self.shortcut(x)
        if self.inplace:
            y += skipped
        else:
            y = y + skipped
        return y


class AttentionModule(nn.Module):
    BACKENDS = {"math": "MATH", "efficient": "EFFICIENT_ATTENTION", "flash": "FLASH_ATTENTION"}

    def __init__(self, width, num_heads, num_kv_heads, causal, bias, dropout, backend):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.size = num_heads, num_kv_heads, width // num_heads
        self.causal, self.dropout, self.backend = causal, dropout, backend
        self.qkv = nn.Linear(width, (num_heads + 2 * num_kv_heads) * self.size, bias=bias)
        self.proj = nn.Linear(width, width, bias=bias)

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=self.causal,
            enable_gqa=self.num_kv_heads != self.num_heads,
        )

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x)
        q, k, v = qkv.split([n * self.size for n in (self.num_heads, self.num_kv_heads, self.num_kv_heads)], dim=-1)
        q = q.view(batch, length, self.num_heads, self.size).transpose(1, 2)
        k = k.view(batch, length, self.num_kv_heads, self.size).transpose(1, 2)
        v = v.view(batch, length, self.num_kv_heads, self.size).transpose(1, 2)
        if self.backend is None:
            y = self.attend(q, k, v)
        else:
            with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, self.BACKENDS[self.backend])):
                y = self.attend(q, k, v)
        y = y.transpose(1, 2).contiguous().view(batch, length, width)
        return self.proj(y)


class SwigluModule(nn.Module):
    def __init__(self, width, hidden, bias):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=bias)
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class PositionEmbeddingModule(nn.Module):
    def __init__(self, max_length, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(max_length, width) * 0.02)

    def forward(self, x):
        return x + self.weight[: x.shape[1]]


class RecurrentModule(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        y, _ = self.inner(x)
        return y


class LastModule(nn.Module):
    def forward(self, x):
        return x[:, -1]


def pair(n):
    return tuple(n) if isinstance(n, (list, tuple)) else (n, n)


def same_shape(make):
    return lambda shape: (make(shape), shape)


def linear(out_features, bias=True):
    return lambda shape: (nn.Linear(shape[-1], out_features, bias=bias), [*shape[:-1], out_features])


def windows(shape, channels, kernel_size, stride, padding, dilation=(1, 1)):
    """A sample's shape after windows of that kind have gone over it."""
    sizes = zip(shape[1:], kernel_size, stride, padding, dilation)
    return [channels, *((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes)]


def conv2d(out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True):
    k, s, p, d = map(pair, (kernel_size, stride, padding, dilation))

    def make(shape):
        g = shape[0] if groups == "depthwise" else groups
        return nn.Conv2d(shape[0], out_channels, k, s, p, d, g, bias=bias), windows(shape, out_channels, k, s, p, d)

    return make


def batch_norm():
    return same_shape(lambda shape: nn.BatchNorm2d(shape[0]) if len(shape) == 3 else nn.BatchNorm1d(shape[0]))


def layer_norm(bias=True):
    return same_shape(lambda shape: nn.LayerNorm(shape[-1], bias=bias))


def rms_norm(eps=1e-6):
    return same_shape(lambda shape: nn.RMSNorm(shape[-1], eps=eps))


def group_norm(num_groups):
    return same_shape(lambda shape: nn.GroupNorm(num_groups, shape[0]))


def embedding(num_embeddings, embedding_dim):
    return lambda shape: (nn.Embedding(num_embeddings, embedding_dim), [*shape, embedding_dim])


def position_embedding(max_length):
    return same_shape(lambda shape: PositionEmbeddingModule(max_length, shape[-1]))


def relu(inplace=False):
    return same_shape(lambda _: nn.ReLU(inplace=inplace))


def gelu(approximate="none"):
    return same_shape(lambda _: nn.GELU(approximate=approximate))


def silu(inplace=False):
    return same_shape(lambda _: nn.SiLU(inplace=inplace))


def sigmoid():
    return same_shape(lambda _: nn.Sigmoid())


def tanh():
    return same_shape(lambda _: nn.Tanh())


def softmax():
    return same_shape(lambda _: nn.Softmax(dim=-1))


def dropout(p=0.5, inplace=False):
    return same_shape(lambda _: nn.Dropout(p, inplace=inplace))


def pool(module, kernel_size, stride, padding):
    k, s, p = pair(kernel_size), pair(kernel_size if stride is None else stride), pair(padding)
    return lambda shape: (module(k, s, p), windows(shape, shape[0], k, s, p))


def max_pool2d(kernel_size, stride=None, padding=0):
    return pool(nn.MaxPool2d, kernel_size, stride, padding)


def avg_pool2d(kernel_size, stride=None, padding=0):
    return pool(nn.AvgPool2d, kernel_size, stride, padding)


def adaptive_avg_pool2d(output_size):
    return lambda shape: (nn.AdaptiveAvgPool2d(pair(output_size)), [shape[0], *pair(output_size)])


def flatten():
    def make(shape):
        size = 1
        for n in shape:
            size *= n
        return nn.Flatten(), [size]

    return make


def last():
    return lambda shape: (LastModule(), shape[1:])


def recurrent(module, hidden_size, num_layers, bidirectional):
    def make(shape):
        inner = module(shape[-1], hidden_size, num_layers=num_layers, batch_first=True, bidirectional=bidirectional)
        return RecurrentModule(inner), [shape[0], hidden_size * (2 if bidirectional else 1)]

    return make


def lstm(hidden_size, num_layers=1, bidirectional=False):
    return recurrent(nn.LSTM, hidden_size, num_layers, bidirectional)


def gru(hidden_size, num_layers=1, bidirectional=False):
    return recurrent(nn.GRU, hidden_size, num_layers, bidirectional)


def attention(num_heads, num_kv_heads=None, causal=False, bias=True, dropout=0.0, backend=None):
    heads = num_heads if num_kv_heads is None else num_kv_heads
    return same_shape(lambda shape: AttentionModule(shape[-1], num_heads, heads, causal, bias, dropout, backend))


def swiglu(hidden_features, bias=False):
    return same_shape(lambda shape: SwigluModule(shape[-1], hidden_features, bias))


def residual(layers, shortcut=(), inplace=False):
    def make(shape):
        body, out = sequential(layers, shape)
        skip = sequential(shortcut, shape)[0] if shortcut else None
        return ResidualModule(body, skip, inplace), out

    return make


def checkpoint(layers):
    def make(shape):
        inner, out = sequential(layers, shape)
        return Checkpointed(inner), out

    return make


class repeat:
    """Layers over and over. A sequence holds them as its own."""

    def __init__(self, times, layers):
        self.layers = list(layers) * times

    def __call__(self, shape):
        return sequential([self], shape)


def modules(layers, shape):
    """The modules that a sequence of layers holds, and the shape after them."""
    made = []
    for layer in layers:
        for make in layer.layers if isinstance(layer, repeat) else [layer]:
            module, shape = make(shape)
            made.append(module)
    return made, shape


def sequential(layers, shape):
    made, shape = modules(layers, shape)
    return nn.Sequential(*made), shape


# The training loop.


class Rows:
    """Reads memory at the end of each phase, and prints a row."""

    def __init__(self, labels):
        self.labels = labels
        self.writer = csv.writer(sys.stdout, lineterminator="\n")
        self.at = (0, 0, "model")
        self.failure = None
        if len(sys.argv) == 1:
            self.writer.writerow(COLUMNS)
        # Told of a failure before anything that failed lets go of its memory.
        torch._C._cuda_attach_out_of_memory_observer(self.run_out)

    def run_out(self, *_):
        self.failure = self.figures()

    @staticmethod
    def figures():
        stats = torch.cuda.memory_stats()
        return [stats.get(f"{name}.all.{which}", 0) for name, which in
                (("allocated_bytes", "current"), ("allocated_bytes", "peak"), ("reserved_bytes", "current"))]

    def __call__(self, status="ok"):
        torch.cuda.synchronize()
        allocated, peak, reserved = self.failure if status == "oom" and self.failure else self.figures()
        step, micro_step, phase = self.at
        measured = ["", allocated, "", "", peak, "", "", reserved, ""]
        self.writer.writerow([*self.labels, step, micro_step, phase, *measured, *[""] * 8, status])
        sys.stdout.flush()
        torch.cuda.reset_peak_memory_stats()


def make_optimizer(parameters, settings):
    (name, fields), = settings.items() if isinstance(settings, dict) else [(settings, {})]
    fields = dict(fields)
    implementation = fields.pop("implementation", "foreach")
    switches = {"foreach": {"foreach": True}, "for_loop": {"foreach": False}, "fused": {"fused": True}}[implementation]
    if implementation == "for_loop" and name in ("sgd", "adam", "adamw"):
        switches["fused"] = False
    made = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
            "adagrad": torch.optim.Adagrad, "rmsprop": torch.optim.RMSprop}[name]
    return made(parameters, **fields, **switches)


def make_loss(name, output, target):
    if name == "sum":
        return output.sum()
    if name == "mean":
        return output.mean()
    if name == "mse":
        return F.mse_loss(output, target)
    if name == "bce_with_logits":
        return F.binary_cross_entropy_with_logits(output, target)
    return F.cross_entropy(output.view(-1, output.size(-1)), target.view(-1))


def reference_weights(net):
    """Weights in closed form, the same in any framework: of the p-th parameter, element i is sin(1 + i / 2 + p) / sqrt(fan in)."""
    for p, (name, weight) in enumerate(net.named_parameters()):
        if "bias" in name.split(".")[-1]:
            weight.data.zero_()
        if weight.dim() >= 2:
            i = torch.arange(weight.numel(), dtype=torch.float64)
            values = torch.sin(1.0 + 0.5 * i + p) / weight[0].numel() ** 0.5
            weight.data.copy_(values.view_as(weight).to(weight.dtype))


class Batches:
    """Batches in the host's memory: random, or in closed form."""

    def __init__(self, case, out_shape):
        train = case["train"]
        self.reference = train.get("init") == "reference"
        self.batch_size, self.dtype, self.loss = train["batch_size"], DTYPES[train["dtype"]], train["loss"]
        self.classes, self.vocabulary = out_shape[-1], case["vocabulary"]
        self.make(case["input"], out_shape)

    def make(self, shape, out_shape):
        shape, out_shape = [self.batch_size, *shape], [self.batch_size, *out_shape]
        if self.vocabulary is None:
            self.input = torch.randn(shape, dtype=self.dtype)
        else:
            self.input = torch.randint(0, self.vocabulary, shape)
        self.target = None
        if self.loss == "cross_entropy":
            self.target = torch.randint(0, self.classes, out_shape[:-1])
        elif self.loss in ("mse", "bce_with_logits"):
            self.target = torch.rand(out_shape, dtype=self.dtype)

    def get(self, n):
        if self.reference:
            self.input, self.target = self.closed_form(n)
        return self.input, self.target

    def closed_form(self, n):
        i = torch.arange(self.input.numel(), dtype=torch.float64)
        if self.vocabulary is None:
            x = torch.sin(0.1 * i + n).to(self.input.dtype)
        else:
            x = (i.long() * 7919 + n * 104729) % self.vocabulary
        if self.target is None:
            return x.view_as(self.input), None
        j = torch.arange(self.target.numel(), dtype=torch.float64)
        if self.loss == "cross_entropy":
            t = (j.long() * 31 + 17 * n) % self.classes
        else:
            t = (0.5 + 0.5 * torch.sin(0.3 * j + n)).to(self.target.dtype)
        return x.view_as(self.input), t.view_as(self.target)


def make_net(case):
    def block(name):
        return lambda shape: sequential(case["blocks"][name](block), shape)

    checkpointing = case["train"]["checkpointing"]
    made, out_shape = modules(case["layers"](block), case["input"])
    if checkpointing is True:
        made = [Checkpointed(module) for module in made]
    elif checkpointing:
        size, first = len(made) // checkpointing["segments"], checkpointing["segments"] - 1
        regions = [Checkpointed(nn.Sequential(*made[i * size:(i + 1) * size])) for i in range(first)]
        made = [*regions, *made[first * size:]]
    return nn.Sequential(*made), out_shape


def train(case, rows):
    settings = case["train"]
    no_grad, evaluates = settings["no_grad"], settings["mode"] == "eval"
    trains = not no_grad and not evaluates
    accumulation, loss_name, keep_loss = settings["accumulation_steps"], settings["loss"], settings.get("keep_loss")
    reference = settings["init"] == "reference"
    amp = DTYPES.get(settings.get("amp"))
    lengths = settings.get("lengths")
    if isinstance(lengths, dict):
        lengths = list(range(lengths["from"], lengths["to"] + 1, lengths["by"]))
    torch.manual_seed(settings["seed"])
    net, out_shape = make_net(case)
    if reference:
        reference_weights(net)
    batches = Batches(case, out_shape)

    net = net.to("cuda", DTYPES[settings["dtype"]])
    rows()
    net.train(trains)
    rows.at = (1, 1, "input")
    optimizer = make_optimizer(net.parameters(), settings["optimizer"]) if trains else None
    scaler = torch.amp.GradScaler("cuda") if trains and amp is torch.float16 else None
    kept, total = [], None
    with torch.set_grad_enabled(not no_grad):
        for step in range(1, (len(lengths) if lengths else settings["steps"]) + 1):
            if lengths:
                length = lengths[step - 1]
                targets = [length, *out_shape[1:]] if len(out_shape) > 1 else out_shape
                batches.make([length, *case["input"][1:]], targets)
            for micro_step in range(1, accumulation + 1):
                rows.at = (step, micro_step, "input")
                x, t = batches.get((step - 1) * accumulation + micro_step - 1)
                input = x.to("cuda")
                target = None if t is None else t.to("cuda")
                rows()
                rows.at = (step, micro_step, "forward")
                with torch.autocast("cuda", dtype=amp, enabled=amp is not None):
                    output = net(input)
                    rows()
                    rows.at = (step, micro_step, "loss")
                    if not no_grad:
                        loss = make_loss(loss_name, output, target)
                if no_grad:
                    continue
                if accumulation > 1:
                    loss = loss / accumulation
                rows()
                if trains:
                    rows.at = (step, micro_step, "backward")
                if keep_loss == "list":
                    kept.append(loss)
                if keep_loss == "total":
                    total = loss if total is None else total + loss
                if keep_loss == "item":
                    kept.append(loss.item())
                if reference:
                    print(f"step {step}.{micro_step}: loss {loss.item()!r}", file=sys.stderr)
                if trains:
                    (loss if scaler is None else scaler.scale(loss)).backward()
                    rows()
            if trains:
                rows.at = (step, accumulation, "optimizer")
                if scaler is None:
                    optimizer.step()
                else:
                    scaler.step(optimizer)
                    scaler.update()
                rows()
                rows.at = (step, accumulation, "zero_grad")
                optimizer.zero_grad(set_to_none=True)
                rows()
            if settings["empty_cache"]:
                rows.at = (step, accumulation, "empty_cache")
                torch.cuda.empty_cache()
                rows()


def follow(case, rows):
    """A script of allocations: names are Python variables."""
    alive = {}
    for number, step in enumerate(case["steps"], 1):
        (kind, what), = step.items() if isinstance(step, dict) else [(step, None)]
        rows.at = (number, 0, kind)
        if kind == "alloc":
            alive[what["name"]] = torch.empty(what["shape"], dtype=DTYPES[what["dtype"]], device="cuda")
        elif kind == "free":
            del alive[what]
        elif kind == "add":
            alive[what["into"]] = alive[what["left"]] + alive[what["right"]]
        else:
            torch.cuda.empty_cache()
        rows()


def main():
    torch.zeros(1, device="cuda")  # whatever the driver takes is taken before the first row
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    limit = CASE.get("allocator", {}).get("memory_limit")
    if limit is not None:
        # The allocator allows ⌊share × memory⌋ bytes; the half keeps rounding from losing one.
        torch.cuda.set_per_process_memory_fraction((limit + 0.5) / torch.cuda.get_device_properties(0).total_memory)
    rows = Rows(CASE["labels"])
    try:
        (follow if "steps" in CASE else train)(CASE, rows)
    except torch.OutOfMemoryError as error:
        rows("oom")
        print(error, file=sys.stderr)
        return 1
    return 0


sys.exit(main())
