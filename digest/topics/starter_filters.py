"""Define the topics that the sign-up form offers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: The filters of the starter topics, keyed by name. They cover the most common interests of readers.
STARTER_TOPICS: Mapping[str, str] = MappingProxyType(
    {
        "Language models": 'ti:"language model*" OR abs:"large language model*" OR LLM OR LLMs',
        "Agents": "ti:agent* OR abs:agentic OR abs:\"tool use\" OR abs:\"LLM agent*\"",
        "Reasoning": 'ti:reason* OR "chain of thought" OR "test-time compute"',
        "Vision": "ti:image* OR ti:vision OR ti:visual* OR abs:\"object detection\" OR abs:segmentation",
        "Video": "ti:video* OR abs:\"video generation\"",
        "Diffusion": '"diffusion model*" OR "flow matching" OR "score-based" OR ti:diffusion',
        "Robots": "ti:robot* OR abs:robotic* OR abs:embodied OR abs:manipulation",
        "Speech and sound": "ti:speech OR ti:audio OR ti:music OR abs:\"text-to-speech\"",
        "Reinforcement learning": '"reinforcement learning" OR RLHF OR "policy gradient"',
        "Health": "medical OR clinical OR biomedical OR protein* OR patient*",
        "Efficiency": "quantization OR quantisation OR pruning OR distillation OR ti:efficient",
        "Safety": "ti:safety OR alignment OR jailbreak* OR interpretab*",
    }
)  # fmt: skip
