"""What each kind of letter needs to be rendered."""

from collections.abc import Mapping

#: Every kind of letter except the digest, with the context values that the kind requires besides `site`.
REQUIRED_CONTEXT: Mapping[str, tuple[str, ...]] = {
    #: optional: `requested` and `schedule`, both in words; `remarks` as (line, result)
    "confirm": ("confirm_url",),
    "reminder": ("confirm_url",),  #: sent once, a day later; optional: the same values as in `confirm`
    "invite": ("confirm_url", "unsubscribe_url"),  #: to an imported address; optional: `topics`, `invited_by`
    #: optional: `cards` (Card.to_json) with `until_then` and `is_on_topics`; `has_topics`
    "welcome": ("manage_url", "unsubscribe_url"),
    "settings": ("manage_url", "unsubscribe_url"),  #: to a subscriber who signed up again
    "settings_link": ("manage_url", "unsubscribe_url"),  #: to a subscriber who asked for the link
    "account_link": (
        "account_url",
        "unsubscribe_url",
    ),  #: to a subscriber who asked on the settings page or by mail
    "new_address": ("new_address_url",),  #: to a subscriber's new address
    "address_changed": ("new_address_url", "moved_to"),  #: to the old address, which the link restores
    #: `topics` as {name, filter}, empty for trending; optional: `pack`
    "changed": ("manage_url", "unsubscribe_url"),
    "paused": ("manage_url", "unsubscribe_url"),  #: optional: `until`
    #: optional: `nearest` {title, href, lacked, is_text}, `has_topics`, `is_wanted` and `news`
    "nothing_today": ("manage_url", "unsubscribe_url", "checked"),
    "still_reading": ("manage_url", "unsubscribe_url", "until"),  #: `until`: when the pause begins
    "goodbye": ("undo_url",),
    #: `outcomes` as {command, result}; optional: `unread`, `answered_subject`, `prefilled`, `is_changed`, `links`,
    #: `state`, `asks_to_unsubscribe`
    "reply": ("manage_url", "outcomes"),
    #: `commands` as {spelled, does}; optional: `others`, the words of further commands
    "help": ("manage_url", "commands"),
    #: to a reader whose mail has no command; `examples` are {spelled, does}; optional: `is_talk`, `is_absence`
    "no_command": ("manage_url", "unsubscribe_url", "examples"),
    #: to somebody who mailed the service but gets no digests; optional: `address`, `is_for_readers`, `problem`
    "how_to_subscribe": ("word", "example"),
    #: to the operator, with the text of a message that contains no command
    "passed_on": ("writer", "mail_subject", "lines"),
    "alarm": ("message", "fix"),  #: to the operator; optional: `since`, `facts`
    #: to the operator; `rows` as {name, total, before, chart, most}
    "weekly_report": ("period", "rows", "summary"),
}
