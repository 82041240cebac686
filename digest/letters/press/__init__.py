"""The press, the prepared content of one publication, and the letters made from it.

A press is immutable, and its name is a hash of its content: the ranked papers, their scores, and the figures
behind the scores. The same press, templates, digest and personalization give the same bytes on every machine.
"""
