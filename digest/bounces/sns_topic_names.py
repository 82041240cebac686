"""Recognise the names (ARNs) of Amazon SNS topics. Pure."""

from __future__ import annotations

import re

TOPIC_ARN = re.compile(r"arn:aws(?:-cn|-us-gov)?:sns:(?P<region>[a-z0-9-]+):\d{12}:[\w-]{1,256}(?:\.fifo)?")


def is_topic_arn(arn: str) -> bool:
    """Return whether `arn` is the ARN of an SNS topic."""
    return TOPIC_ARN.fullmatch(arn) is not None
