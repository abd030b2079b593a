"""Reworded texts of api, capacity, workloads, telemetry, cluster and controller, as in `wording`."""

from typing import Final

_NUMBER: Final = r"([0-9][0-9,.]*)"

REWORDED: Final[tuple[tuple[str, str], ...]] = (
    # Assumptions and notes of the capacity plan
    (
        rf"of each GPU's {_NUMBER} GiB the engine takes {_NUMBER} %, of which {_NUMBER} GiB are overhead",
        r"the engine uses \2 % of each GPU's \1 GiB, including \3 GiB of overhead",
    ),
    (
        rf"a replica is spread over {_NUMBER} nodes of ([0-9,]+ GPUs?); what their network costs is not modelled",
        r"a replica spans \1 nodes with \2 each; network time between nodes is not modelled",
    ),
    (
        rf"{_NUMBER}% of the mean-value capacity is planned \(",
        r"\1% of the mean-value capacity is used (",
    ),
    (
        rf"maxModelLen is not set: the checkpoint's {_NUMBER} tokens must fit at once",
        r"maxModelLen is not set; a request of the checkpoint's \1 tokens must fit",
    ),
    (
        "the longest request is not known: set model.maxModelLen to check that it fits",
        "the longest request is unknown; set model.maxModelLen to check that it fits",
    ),
    (
        rf"the longest request is not known: {_NUMBER} tokens, the mean of traffic, must fit",
        r"the longest request is unknown; one of \1 tokens, the mean of traffic, must fit",
    ),
    (
        "the checkpoint's precision is not known; 16 bits a weight are taken",
        "the checkpoint's precision is unknown; 16 bits per weight are assumed",
    ),
    (
        "all requests are taken as long as the mean; forebay plan --trace takes recorded ones",
        "all requests are assumed to have the mean length; forebay plan --trace reads recorded lengths",
    ),
    (
        r"traffic\.(peakFactor|headroom) is not set: ([0-9.]+) is taken",
        r"traffic.\1 is not set; \2 is assumed",
    ),
    (
        r"the draft (\S+) is not in the catalogue: neither its weights nor its gain are counted; set ",
        r"the draft \1 is not in the catalogue; its weights and its gain are not counted: set ",
    ),
    (
        r"engine\.speculative\.acceptancePercent is not set: no gain of speculation is counted on",
        "engine.speculative.acceptancePercent is not set; no gain from speculation is assumed",
    ),
    (
        rf"speculation by (\w+): {_NUMBER} guesses at {_NUMBER} % give {_NUMBER} tokens a step that takes {_NUMBER} ",
        r"speculation by \1: \2 guesses per step at \3 % yield \4 tokens; the step takes \5 ",
    ),
    (
        rf"KV reads are taken as {_NUMBER}/{_NUMBER} of the profile's; that was not measured",
        r"KV reads are assumed to take \1/\2 of the profile's time (not measured)",
    ),
    (
        (
            r"roofline estimate (\S+) %: no profile of this model on (\S+) as ([A-Z0-9 ]+); from the data sheet and "
            "the efficiency of measured kernels"
        ),
        (
            r"roofline estimate \1 % from the data sheet and the efficiency of measured kernels: there is no profile "
            r"of this model on \2 with \3"
        ),
    ),
    (
        "every step is taken to read all experts, as it does once some dozens of sequences decode",
        "every step is assumed to read all experts, as it does with a few dozen decoding sequences",
    ),
    (
        (
            rf"a step may compute {_NUMBER} tokens of prompts: with the {_NUMBER} that leave everyone's next token in "
            "time, first tokens would be late; the mean between tokens holds"
        ),
        (
            r"a step computes up to \1 prompt tokens: with \2, which would keep every next token in time, first tokens "
            "would be late; the mean time between tokens still holds"
        ),
    ),
    (
        rf"scaling\.maxReplicas is not set and means 1: set it to {_NUMBER}, or the plan cannot come true",
        r"scaling.maxReplicas is not set and defaults to 1; set it to \1 to allow the planned replicas",
    ),
    (
        rf"allows the peak but not its headroom; the plan counts {_NUMBER} replicas",
        r"allows the peak but not its headroom; the plan needs \1 replicas",
    ),
    (
        "not measured; as far below the data sheet as fp8 was seen to be, and some more",
        "not measured; assumed to be somewhat further below the data sheet than measured fp8",
    ),
    ("not measured; taken as other 4-bit weights", "not measured; assumed to equal other 4-bit weights"),
    (
        "not measured; taken as 8-bit weights with 16-bit operands",
        "not measured; assumed to equal 8-bit weights with 16-bit operands",
    ),
    (
        "not measured; its kernels widen the weights outside the product, taken as half as efficient",
        "not measured; assumed to be half as efficient, because its kernels widen the weights before the product",
    ),
    (
        "the method does not say how many bits a weight has; taken as weights with 16-bit operands",
        "the method does not determine the bits per weight; weights with 16-bit operands are assumed",
    ),
    # Problems of the capacity plan
    (
        r"is not given, and memory and speed follow from the card; (.*?) or give forebay plan a --gpu",
        r"is not set, and memory and speed depend on the GPU; \1 or pass --gpu to forebay plan",
    ),
    ("is not a card of the catalogue", "is not a GPU of the catalogue"),
    (
        "is not in the catalogue, and its shape is not given",
        "is not in the catalogue, and its architecture is not set",
    ),
    (
        "give forebay plan the checkpoint's config.json with --config",
        "pass the checkpoint's config.json to forebay plan with --config",
    ),
    (r"write (hf://\S+) if that is meant", r"write \1 if you mean that model"),
    ("does not say how many bits a weight has", "does not determine the bits per weight"),
    (
        rf"the {_NUMBER} GiB that the engine may take of each GPU \(",
        r"the \1 GiB of each GPU that the engine may use (",
    ),
    (
        (
            r"(cannot be kept:|between tokens,) (?:and )?a token takes ([0-9.e+]+ m?s) on (\S+) \(([A-Z0-9 ]+)\) "
            "before any request is in the step, without prompts and KV reads"
        ),
        r"\1 a token takes at least \2 on \3 (\4), even without prompts and KV reads",
    ),
    (
        "between tokens, a token takes at least",
        "between tokens, but a token takes at least",
    ),
    (
        r"is not kept at the peak: ([0-9.e+]+ m?s) are expected",
        r"is not kept at the peak: \1 is expected",
    ),
    (r"; promise ([0-9.e+]+ m?s) or more", r"; set it to \1 or more"),
    (
        rf"{_NUMBER} GiB of weights a GPU, {_NUMBER} tokens",
        r"\1 GiB of weights per GPU, \2 tokens of KV cache",
    ),
    (
        rf"(set model\.kvCacheDtype fp8|use gpu\.product \S+): {_NUMBER} tokens",
        r"\1: \2 tokens of KV cache",
    ),
    (r"\(a token takes ([0-9.e+]+ m?s) at least", r"(a token takes at least \1"),
    (rf"and {_NUMBER} tokens of answer are more than", r"and \1 output tokens are more than"),
    (rf"plan for {_NUMBER} requests a month at most", r"plan for at most \1 requests per month"),
    (
        rf"is below the {_NUMBER} replicas that the peak needs without any headroom, {_NUMBER} warm ones included",
        r"is below the \1 replicas that the peak needs even without headroom, including \2 warm replicas",
    ),
    # Problems of a spec
    (
        (
            r"is older than ([0-9.]+), the oldest that Forebay can drain and measure; use \1 or newer, or state the "
            "version here when the image's tag counts something else"
        ),
        (
            r"is older than \1, the oldest version that Forebay supports; use \1 or newer, or set the version here if "
            "the image's tag is not a vLLM version"
        ),
    ),
    (r"it was removed by vLLM ([0-9.]+);", r"it was removed in vLLM \1;"),
    (r"it came with vLLM ([0-9.]+);", r"it was added in vLLM \1;"),
    (r"it left with vLLM ([0-9.]+);", r"it was removed in vLLM \1;"),
    (
        rf"cannot place the ranks of spec\.engine\.nodes {_NUMBER}; leave it out, which means mp",
        r"does not work with spec.engine.nodes \1; leave it out, and Forebay sets mp",
    ),
    (
        "is how Forebay remembers drains; choose another prefix",
        "is reserved for Forebay; choose another prefix",
    ),
    ("it is run and measured as that one", "it is treated like that version"),
    (
        r"answers to namespace/name only; for short names by a ModelRoute use",
        "accepts only namespace/name as the model name; for short names of a ModelRoute use",
    ),
    (rf"does not act while minReplicas is {_NUMBER};", r"has no effect while minReplicas is \1;"),
    # Why a pod has no metrics
    (
        rf"is not in the answer, though (\S+) is {_NUMBER}; vLLM",
        r"is missing, although \1 is \2; vLLM",
    ),
    (r"(vllm:\S+ is \S+), which is no reading", r"\1, which is not a valid value"),
    (rf"is {_NUMBER}, and a fraction from 0 to 1 was expected", r"is \1 and not a fraction from 0 to 1"),
    (
        rf"the answer of {_NUMBER} bytes has no series that starts with",
        r"the response of \1 bytes has no series that starts with",
    ),
    (r"the answer is cut: its last line (.*?) does not end", r"the response is truncated: its last line \1 has no end"),
    (
        rf"the answer is longer than {_NUMBER} bytes",
        r"the response is longer than \1 bytes",
    ),
    # Names that are in use
    (" exists and is not ours; it is left alone", " belongs to another owner; Forebay does not change it"),
    (" is being deleted; its name is free after that", " is still being deleted"),
)
