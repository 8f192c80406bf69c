"""Kafka's words and bytes: error codes, messages, frames, the consumer protocol. No group, no socket, no clock.

    from regroup.protocol.messages.group import JoinGroupRequest, JoinGroupResponse     # one file a subject
    from regroup.protocol.frames import FrameReader, RequestHeader                       # a stream becomes frames
    from regroup.protocol.frames import decode_request, encode_response                  # a broker's side
    from regroup.protocol.frames import encode_request, decode_response                  # a client's side
    from regroup.protocol.apis import APIS                                               # which APIs and versions
    from regroup.protocol.codec.codec import encode, decode                                    # a body without envelope
    from regroup.protocol.errors import ErrorCode                                        # codes and what they mean
    from regroup.protocol.record_batch import split_records, rewrite, write_batch        # records, mostly opaque
    from regroup.protocol.exceptions import Malformed, UnsupportedVersion                # the tree is drawn there

Messages are immutable and made with keywords; `msgspec.structs.replace` changes a copy, `msgspec.json` writes it down.
One class serves all versions of a message: its lines say which version carries which field, in the marks that
`regroup.protocol.fields` explains. The functions for a version are compiled at its first use.
"""
