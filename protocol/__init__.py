"""Kafka's wire protocol: error codes, messages, frames, record batches, the consumer protocol.

    from regroup.protocol.messages.group import JoinGroupRequest, JoinGroupResponse     # one file for each subject
    from regroup.protocol.frames import FrameReader                                     # a byte stream to frames
    from regroup.protocol.frames import decode_request, encode_response                 # the broker's side
    from regroup.protocol.frames import encode_request, decode_response                 # the client's side
    from regroup.protocol.client import ClientConnection                                # a client, on asyncio
    from regroup.protocol.header import RequestHeader
    from regroup.protocol.apis import APIS                                              # the APIs and their versions
    from regroup.protocol.codec.codec import encode, decode                             # a message without header
    from regroup.protocol.errors import ErrorCode                                       # error codes and their meaning
    from regroup.protocol.record_batch import split_batches, write_batch                # record batches
    from regroup.protocol.exceptions import Malformed, UnsupportedVersion               # the exceptions, as a tree

Messages are immutable and made with keyword arguments; `msgspec.structs.replace` makes a changed copy, `msgspec.json`
writes JSON. One class serves all versions of a message: each field names the versions that carry it, with the marks of
`regroup.protocol.fields`. The functions for one version are compiled when they are first used.
"""
