"""Reworded texts of scaling, schedules and the simulation."""

from typing import Final

N: Final = r"(\d[\d,.]*)"
SECONDS: Final = r"([\d.]+ (?:ms|s))"

REWORDED: Final[tuple[tuple[str, str], ...]] = (
    # decision inputs
    (r"bound by room in the KV cache\b", "bound by the size of the KV cache"),
    (r"\b(\d+ requests?) turned away in the last minute\b", r"\1 rejected in the last minute"),
    (r"none: no replica serves\b", "none: no replica is serving"),
    (
        "what a replica carries is not known: it takes a model of the catalogue \\(or its shape\\) and gpu.product",
        (
            "the capacity of a replica is unknown: it needs gpu.product, and a model of the catalogue or "
            "model.architecture"
        ),
    ),
    (
        "the lengths of requests are not known yet: none has been seen, and no traffic is declared",
        "request lengths are unknown: too few requests have finished, and spec.traffic is not set",
    ),
    (
        "no number of such replicas keeps the promises of slo, so none can be computed",
        "no number of these replicas meets spec.slo, so no count can be computed",
    ),
    # arrivals, backlog and guards
    (
        r"; plus (\d+) for the (\d+) that are stuck: further ones would fare like them\b",
        r"; plus \1 for \2 stuck replicas, since more would get stuck for the same reason",
    ),
    (r"; on top of 1 stuck replica, which carries nothing\b", "; plus 1 for 1 stuck replica, which serves nothing"),
    (
        r"; on top of (\d+) stuck replicas, which carry nothing\b",
        r"; plus \1 for \1 stuck replicas, which serve nothing",
    ),
    (
        rf"\b(\d+ replicas?), which carry as much as {N} of base\b",
        r"\1 with the capacity of \2 base replicas",
    ),
    (r"\b(\d+ requests? waits?) and no replica serves\b", r"\1 and no replica is serving"),
    (
        rf" GPU-seconds of work; with what arrives that takes {N} replicas\b",
        r" GPU-seconds of work; with the arriving work this needs \1 replicas",
    ),
    (rf"; with (\d+ %) headroom that takes {N} replicas of ", r"; with \1 headroom this needs \2 replicas of "),
    (r"\b(\d+ requests?) lost their place in a full KV cache\b", r"\1 were preempted from a full KV cache"),
    (rf"\b{N} of (\d+ requests?) were turned away in the last minute\b", r"\1 of \2 were rejected in the last minute"),
    (
        rf"\bwhat replicas change that began to serve {SECONDS} ago\b",
        r"the effect of replicas that began to serve \1 ago",
    ),
    (
        r"\ba queue that shrinks, and will be gone before another replica could serve\b",
        "a shrinking queue that will be empty before another replica could serve",
    ),
    # the last replica and idleness
    (
        r"\b(\d+ replicas?) on the way: the idle clock begins when it serves\b",
        r"\1 still starting; the idle clock begins when one serves",
    ),
    (
        "the last replica is being replaced, and stays until the new one serves",
        "the last replica is being replaced and stays until the new one serves",
    ),
    (r"\b(\d+ replicas) still serve, and go first\b", r"\1 still serve; all but one are removed first"),
    (
        r"\bnothing has been asked since (\S+), and scaleToZeroAfter is\b",
        r"no request has arrived since \1, and scaleToZeroAfter is",
    ),
    ("nothing has been asked, and scaleToZeroAfter is", "no request has arrived, and scaleToZeroAfter is"),
    ("nothing asks for a replica; `forebay wake` starts one", "no rule asks for a replica; `forebay wake` starts one"),
    ("a request has come to the gateway", "a request has arrived at the gateway"),
    (
        "no replica serves yet, and the idle clock begins when one does",
        "no replica is serving yet; the idle clock begins when one does",
    ),
    (
        r"\b([\w.-]+|a replica) gives no metrics, and silence is not idleness\b",
        r"\1 reports no metrics, so it is unknown whether it is idle",
    ),
    (
        "an engine counts no requests, so that some may have come unseen",
        "an engine does not count its requests, so some may have been missed",
    ),
    (r"\b(\d+ replicas?) still drains\b", r"\1 still draining"),
    # the stabilizer
    ("no replica is known to serve, so the load is not known", "no replica is known to serve, so the load is unknown"),
    (
        r"the load is not known in full: (\S+)( and \d+ more)? (have|has) just begun to serve",
        r"the load is only partly known: \1\2 \3 just begun to serve",
    ),
    (
        r"the load is not known, and silence is no reason to scale down: (\S+)( and \d+ more)? give(s?) no metrics",
        r"the load is unknown, so no replica is removed: \1\2 report\3 no metrics",
    ),
    (
        rf"the count rose less than scaleDownCooldown \({SECONDS}\) ago; none goes before that is over",
        r"the count rose less than scaleDownCooldown (\1) ago; no replica is removed until it has passed",
    ),
    (
        rf"the load has not yet been watched for scaleDownCooldown \({SECONDS}\) without a gap",
        r"the load has not yet been known without a gap for scaleDownCooldown (\1)",
    ),
    ("it is not known yet how much work arrives", "the arriving work is not known yet"),
    (
        rf"it has not yet been known for scaleDownCooldown \({SECONDS}\) without a gap how much work arrives",
        r"the arriving work has not yet been known without a gap for scaleDownCooldown (\1)",
    ),
    (
        (
            rf"the work that arrived asked for up to {N} replicas in the last {SECONDS}; {N} times that, or {N} times "
            rf"the most of {SECONDS}, would not fit on"
        ),
        (
            r"the arriving work needed up to \1 replicas in the last \2; \3 times that, or \4 times the most of the "
            r"last \5, would not fit on"
        ),
    ),
    (rf"; the work that arrived asked for {N} replicas at most\b", r"; the arriving work needed at most \1 replicas"),
    (r"\b(\d+ replicas?) would have carried the load of the last\b", r"\1 could have served the load of the last"),
    (rf"\b{N} each were too many for (\w+) before\b", r"\1 each exceeded the limit of \2 before"),
    # thresholds
    (
        r"guards count again, unless replicas they asked for still load\.",
        "guards count again, unless replicas they asked for are still loading.",
    ),
    (
        r"Only a higher maxReplicas, which is (\d+); (\d+) are asked for\.",
        r"Only a higher maxReplicas (\1 now; the rules ask for \2).",
    ),
    (r"Only a higher maxReplicas, which is (\d+)\.", r"Only a higher maxReplicas (\1 now)."),
    (
        r"Nothing, until the load of every replica that serves is known\.",
        "Nothing, until the load of every serving replica is known.",
    ),
    (
        r"the load began to be watched without a gap is over: a replica goes, if the load allows it\.",
        "the load was last unknown is over: a replica is removed if the load allows it.",
    ),
    (
        r"the last rise is over: a replica goes, if the load allows it\.",
        "the last rise is over: a replica is removed if the load allows it.",
    ),
    (
        r"The last replica goes, if nothing is asked until then\.",
        "The last replica is removed if no request arrives until then.",
    ),
    (
        rf"The last replica goes once nothing has been asked for {SECONDS} \(scaleToZeroAfter\)\.",
        r"The last replica is removed after \1 without a request (scaleToZeroAfter).",
    ),
    (
        rf"One replica goes once each of these has held for {SECONDS} at a stretch:",
        r"One replica is removed once all of these have held for \1 without a break:",
    ),
    (rf"\bwork that asks for at most {N} replicas\b", r"work that needs at most \1 replicas"),
    (
        rf"\bsince {N} per replica were too many for (\w+) before\b",
        r"since \1 per replica exceeded the limit of \2 before",
    ),
    # schedules
    (
        (
            r"floor\.(\w+) cannot be turned into replicas, since it is not known what one of them carries; give "
            r"spec\.traffic and what the capacity plan needs (\([^)]*\)), or ask for floor\.replicas"
        ),
        (
            r"floor.\1 cannot be converted to replicas, because the capacity of a replica is unknown; set spec.traffic "
            r"and what the capacity plan needs \2, or use floor.replicas"
        ),
    ),
    (
        r"is not in the IANA database of this operator; write it as there, such as Europe/Berlin",
        "is not in the IANA database of this operator; use a name from it, such as Europe/Berlin",
    ),
    ("names no time that ever comes; correct its ranges and days", "never occurs; correct its ranges and days"),
    (
        rf"takes longer than the {SECONDS} that were expected, and it cannot be told when it will ",
        r"takes longer than the expected \1, and it is unknown when it will ",
    ),
    (r"; they are ordered from ([^;,]*?\(UTC[+-]\d\d:\d\d\)) on\b", r"; creation starts at \1"),
    (r", and all did at (\w{3} \d)", r"; all were ready at \1"),
    ("; it was asked for after its start", "; the window was added after its start"),
    # the simulation
    ("no node has room for its GPUs", "no node has enough free GPUs"),
    (r"\b(\w+), as the simulation was told to\b", r"\1, as set in the simulation"),
)
