"""Texts of the planner and of its status that were reworded on purpose since the recorded commit.

Each pair is a pattern in the old text, and what it is now. A pattern pins the numbers and names around the words, so
that only words can differ.
"""

from typing import Final

_TIME: Final = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"
_COUNT: Final = r"(\d+ replicas?)"
_ERROR: Final = r"((?:: (?:[^\"\\]|\\.)*?)?)"

REWORDED: Final[tuple[tuple[str, str], ...]] = (
    # Specs and memory.
    (
        "spec: what is stored does not fit this operator's schema; apply",
        "spec: the stored spec does not match this operator's schema; apply",
    ),
    (
        r'the (\w+) (\\"[\w-]+\\") exists and is not ours, so the service cannot be reached by its name; delete',
        r"the \1 \2 exists and has another owner, so the service cannot use this name; delete",
    ),
    ("start from priors: it does not fit the schema", "start from priors: it does not match the schema"),
    (
        r"start from priors: it is of version (\d+), and this operator reads (\d+)",
        r"start from priors: it has version \1, but this operator reads version \2",
    ),
    (
        r"there were (\d+ \w+) and now there are none; believed after (\d+ s)",
        r"there were \1 and now there are none; nothing is planned until some are back, for at most \2",
    ),
    # Wake requests.
    (
        rf"somebody asked for a replica at {_TIME}; it stays (\d+ s) from Ready",
        r"a replica was requested at \1; it is kept for \2 once it is Ready",
    ),
    (
        rf"somebody asked for a replica at {_TIME}; it stays until {_TIME}",
        r"a replica was requested at \1; it is kept until \2",
    ),
    ("is no time with a zone, so it wakes nothing;", "is not a time with a zone, so it wakes nothing;"),
    (
        r"is more than (\d+ s) ahead, so it wakes nothing yet; use `forebay wake`, or set the clock right",
        r"is more than \1 in the future, so it wakes nothing yet; use `forebay wake`, or correct the clock",
    ),
    (
        "nothing has been decided for it before, and it is to have started once",
        "the service is new, and must start once before it can scale to zero",
    ),
    # Replicas.
    (
        "what it says of its requests or its KV cache is no number",
        "its metrics for requests or for the KV cache are not numbers",
    ),
    (
        r"it says that more than ([\d,]+) requests a second came in",
        r"it reports more than \1 new requests per second",
    ),
    (rf"finds no node since {_TIME}", r"has had no node since \1"),
    (rf"finds no room in the quota since {_TIME}", r"has exceeded the quota since \1"),
    (rf"cannot pull its image since {_TIME}", r"has failed to pull its image since \1"),
    (rf"cannot start since {_TIME}", r"has failed to start since \1"),
    (
        r"([\w-]+) was started again after the replica served, and the other pods have lost it",
        r"\1 restarted after the replica had served, so the other pods lost their connection",
    ),
    (
        "this operator has just begun, and leaves replicas where they are",
        "this operator has just started and keeps replicas where they are",
    ),
    # Events of steps.
    (r"had lost its owner and is adopted: it serves on", "had no owner and is adopted: it keeps serving"),
    (
        r"had lost its owner and is adopted: only (\d+) are wanted, so it finishes its requests and goes",
        r"had no owner and is adopted: the service needs only \1, so it drains",
    ),
    (r"finishes its requests and then goes: ", "finishes its requests and is then deleted: "),
    (r"; one of ([\w-]+) is tried instead", r"; a replica of \1 is tried instead"),
    (": its place is needed", ": a new replica needs its place under maxReplicas"),
    (
        r"is of the variant ([\w-]+); it is what replicas are of now",
        r"uses the variant \1; new replicas use it now",
    ),
    (r"is of the variant ([\w-]+); ", r"uses the variant \1; "),
    (
        r"pods ended soon after they were created, (\d+) times; the next ones wait (\d+ s)",
        r"pods ended soon after their creation, \1 times; the next creation waits \2",
    ),
    ("is deleted: its engine ended while it drained", "is deleted: its engine crashed during the drain"),
    (
        r"drainTimeout \(([^()]+)\) is over with (\d+|an unknown number of) requests in flight",
        r"drainTimeout (\1) passed with \2 requests in flight",
    ),
    (": its serving label was taken off", ": its serving label was removed"),
    (": it drains as a whole", ": other pods of the same replica drain"),
    ("; it is tried once more", "; it is retried"),
    (
        r"a replica of ([\w-]+), which is preferred, serves in its place",
        r"a replica of \1, which is preferred, serves instead",
    ),
    (r"the new replica ([\w-]+) finds no place \((\w+)\)", r"the new replica \1 cannot be placed (\2)"),
    (r", and all (\d+) that serve are needed\. ", r", and all \1 serving ones are needed. "),
    (r"(\w+), no longer (\w+), gives (\d+ replicas?): ", r"\1 decides instead of \2, still \3: "),
    # Placeholders.
    (r"(\b1 of \d+ placeholders?) holds a place", r"\1 is ready"),
    (r"(\d+ of \d+ placeholders?) hold a place", r"\1 are ready"),
    (r"; (\d+) hold a place\b", r"; \1 hold GPUs"),
    (r"when it will hold a place\b", "when it will hold GPUs"),
    (r"they make room in the quota of ([\w-]+) for ([\w-]+)", r"\2 needs their share of the quota of \1"),
    (r"(\d+ creations?) left to the next minute", r"\1 delayed to the next minute"),
    # Conditions.
    ("but none gives metrics, so load cannot be followed", "but none reports metrics, so the load is unknown"),
    (
        r"All (\d+) replicas have requests and count nothing any more:",
        r"All \1 replicas have requests, but none makes a step:",
    ),
    (
        "either every engine hangs, or their metrics stand still",
        "either every engine hangs, or their metrics are stuck",
    ),
    (
        r"Nothing is replaced or scaled down until one of them counts on\.",
        "Nothing is replaced or scaled down until one of them makes a step.",
    ),
    ("so there are no metrics to miss", "so no metrics are expected"),
    (
        "No replica is known to serve, so there are no metrics to go by",
        "No replica is known to serve, so there are no metrics",
    ),
    (
        rf"( and \d+ more) give no metrics since {_TIME}{_ERROR}\. Until they are back nothing is scaled down\.",
        r"\1 have reported no metrics since \2\3. Nothing is scaled down until metrics are back.",
    ),
    (
        rf"gives no metrics since {_TIME}{_ERROR}\. Until they are back nothing is scaled down\.",
        r"has reported no metrics since \1\2. Nothing is scaled down until metrics are back.",
    ),
    (r"All (\d+) serving replicas give metrics", r"All \1 serving replicas report metrics"),
    ("No warm replicas are asked for ", "No warm replicas are requested "),
    (
        "The load is not known, so it cannot be told which replicas are spare",
        "The load is unknown, so it is unknown which replicas are spare",
    ),
    (r"; maxReplicas \((\d+)\) leaves no more", r"; maxReplicas (\1) allows no more"),
    (r"(\b1 replica) of the old revision serve on", r"\1 of the old revision keeps serving"),
    (rf"{_COUNT} of the old revision serve on", r"\1 of the old revision keep serving"),
    (r"(\b1 replica) of an earlier spec serve on as they are", r"\1 of an earlier spec keeps serving unchanged"),
    (rf"{_COUNT} of an earlier spec serve on as they are", r"\1 of an earlier spec keep serving unchanged"),
    ("and none is created before the spec is corrected", "and none is created until the spec is corrected"),
    (r"(\d+ of \d+) replicas are of revision ", r"\1 replicas run revision "),
    ("All replicas are of revision ", "All replicas run revision "),
    ("No replica runs; the next one will be of revision ", "No replica runs; the next one will run revision "),
    (rf"{_COUNT} leave cordoned nodes: ", r"\1 must leave cordoned nodes: "),
    (r"(\b1 replica) finishes its requests and goes", r"\1 is draining"),
    (r"(\d+ replicas) finishes its requests and goes", r"\1 are draining"),
    (r": nothing was asked for scaleToZeroAfter \(", ": no request arrived for scaleToZeroAfter ("),
    # Schedules.
    ("No window is ahead", "There is no upcoming window"),
    (
        r"ceiling of (\d+) GPUs leaves (\d+) of (\d+ placeholders?)",
        r"ceiling of \1 GPUs allows \2 of \3",
    ),
    (
        r"ceiling of (\d+) GPUs leaves (\d+) of the (\d+) (replicas?) that are still to come",
        r"ceiling of \1 GPUs allows \2 of the \3 missing \4",
    ),
    (
        r"(\b1 placeholder) has still to be placed, and the nodes that match have",
        r"\1 still needs a node, and the matching nodes have",
    ),
    (
        r"(\d+ placeholders) have still to be placed, and the nodes that match have",
        r"\1 still need a node, and the matching nodes have",
    ),
    (
        r"(\b1 replica of [^\"]*?) is still to be placed, and the nodes that match \(",
        r"\1 still needs a node, and the matching nodes (",
    ),
    (
        r"(\d+ replicas of [^\"]*?) are still to be placed, and the nodes that match \(",
        r"\1 still need a node, and the matching nodes (",
    ),
    (
        r"\(Forebay's own pods are counted, neither those of others nor nodes that an autoscaler may add\)",
        "(pods of others and nodes that an autoscaler may add are not counted)",
    ),
    # What comes next.
    ("; by then (it|each) is expected or given up", r"; by then \1 is expected to serve or given up"),
    ("; by then (it|each) is tried anew", r"; by then \1 is retried"),
    ("; by then (it|each) is deleted at the latest", r"; by then \1 is deleted"),
    ("Not done yet: ", "On hold: "),
    (rf"its floor of {_COUNT} no longer holds, the load decides", r"its floor of \1 is lifted and the load decides"),
    (rf"opens: {_COUNT} have to serve by then", r"opens: \1 must serve by then"),
    (rf"begins to count: {_COUNT} have to serve by {_TIME}", r"starts warming: \1 must serve by \2"),
    ("counts as stuck if it has found no node by then", "counts as stuck if it has no node by then"),
    (r"\(assumed, with (\d+ starts?) seen\)", r"(assumed, \1 measured)"),
    ("; it is kept to be looked at", "; it is kept for inspection"),
    (
        "has only some of its nodes; in its turn it gives them back, and tries anew",
        "has only some of its nodes; it is deleted when its turn comes, and then it is tried",
    ),
    (
        r"has only some of its nodes; in its turn it gives them back, and one of ([\w-]+) is tried",
        r"has only some of its nodes; it is deleted when its turn comes, and then a replica of \1 is tried",
    ),
    (r"; one of ([\w-]+) is tried in its place", r"; a replica of \1 is tried instead"),
    ("; another one is tried in its place", "; another replica is tried instead"),
    ("; it is replaced in its turn, one at a time", "; stalled replicas are replaced one at a time"),
    (
        "; nothing is done about it until one of all that stand still counts on",
        "; none is replaced until one of the stalled replicas makes a step",
    ),
    (
        r"It goes before that once it has finished its an unknown number of requests",
        "It is deleted earlier once it has finished its requests, whose number is unknown",
    ),
    (
        r"It goes before that once it has finished its (\d+ requests?)",
        r"It is deleted earlier once it has finished its \1",
    ),
    (
        r"by revision (\w+): a new one serves first, then an old one drains",
        r"by revision \1: each old replica drains once a new one serves",
    ),
    # Variants.
    ("is tried again, with one replica on top of what is wanted; once", "is tried again with one extra replica; once"),
    ("; once it serves, one of 1 replica that is less", "; once it serves, the less"),
    ("; once it serves, the less preferred drains", "; once it serves, the less preferred replica drains"),
    (
        r"; once it serves, one of (\d+) replicas that are less preferred drains",
        r"; once it serves, one of \1 less preferred replicas drains",
    ),
    (
        r"Once ([\w-]+) serves, which is of ([\w-]+), one of 1 replica that is less preferred drains",
        r"Once \1 (\2) serves, the less preferred replica drains",
    ),
    (
        r"Once ([\w-]+) serves, which is of ([\w-]+), one of (\d+) replicas that are less preferred drains",
        r"Once \1 (\2) serves, one of \3 less preferred replicas drains",
    ),
    (
        "may be tried again, to take the place of one of 1 replica that is less preferred; that waits for",
        "may be tried again to replace the less preferred replica; it waits for",
    ),
    (
        r"may be tried again, to take the place of one of (\d+) replicas that are less preferred; that waits for",
        r"may be tried again to replace one of \1 less preferred replicas; it waits for",
    ),
    (r"It is tried again (\d+ s) after that has ended", r"It is tried again \1 after the shortage ends"),
    (
        "waits for the load of every replica that serves to be known",
        "waits for the load of all serving replicas to be known",
    ),
    (
        r"room under maxReplicas \((\d+)\), since one of it carries less than one that would go",
        r"room under maxReplicas (\1), because its replicas have less capacity than those they replace",
    ),
    (
        r"room under maxReplicas \((\d+)\), since rollout\.maxSurge is 0",
        r"room under maxReplicas (\1), because rollout.maxSurge is 0",
    ),
)
