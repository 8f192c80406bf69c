"""Kafka's error codes as one table: what each means for the client that receives it.

    ErrorCode.REBALANCE_IN_PROGRESS.meaning                 "The group is between two generations; …"
    ErrorCode.REBALANCE_IN_PROGRESS.member_stays_in_group   True
    ErrorCode(27).retriable                                 False

An `ErrorCode` is an int and can be put into any message as it is.
"""

from enum import IntEnum
from typing import Final

__all__ = ["ErrorCode"]

RETRY: Final = True
FINAL: Final = False
MEMBER: Final = True
NOT_MEMBER: Final = False


class ErrorCode(IntEnum):
    """An error code by Kafka's name. Each row has the code, RETRY or FINAL (`retriable`), MEMBER, NOT_MEMBER or None
    (`member_stays_in_group`), and the meaning."""

    retriable: bool
    """Whether the same request may succeed later. Also False if the client must first do something else, such as find
    the coordinator."""
    member_stays_in_group: bool | None
    """Whether the member is still in the group, for codes of the group APIs; None for all other codes."""
    meaning: str

    # The defaults let the type checker accept a look-up by number: ErrorCode(27).
    def __new__(
        cls, code: int, retriable: bool = FINAL, member_stays_in_group: bool | None = None, meaning: str = ""
    ) -> "ErrorCode":
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.member_stays_in_group = member_stays_in_group
        member.meaning = meaning
        return member

    @classmethod
    def name_of(cls, code: int) -> str:
        """Kafka's name of a code: `REBALANCE_IN_PROGRESS` for 27, `error code 999` for a code that is not in the
        table."""
        return cls(code).name if code in _CODES else f"error code {code}"

    # fmt: off
    UNKNOWN_SERVER_ERROR = -1, FINAL, None, "The broker failed with an error that has no code."
    NONE = 0, FINAL, None, "No error."
    OFFSET_OUT_OF_RANGE = 1, FINAL, None, "The partition has no record at this offset: it is below the log start or above the log end."
    CORRUPT_MESSAGE = 2, RETRY, None, "The records do not match their checksum, or are malformed."
    UNKNOWN_TOPIC_OR_PARTITION = 3, RETRY, None, "This broker does not have the topic or the partition."
    INVALID_FETCH_SIZE = 4, FINAL, None, "The number of bytes to fetch is impossible."
    LEADER_NOT_AVAILABLE = 5, RETRY, None, "The partition has no leader at present; one may be elected soon."
    NOT_LEADER_OR_FOLLOWER = 6, RETRY, None, "This broker does not lead the partition; ask for metadata again."
    REQUEST_TIMED_OUT = 7, RETRY, None, "The broker could not finish in time; the request may or may not have been carried out."
    BROKER_NOT_AVAILABLE = 8, FINAL, None, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, RETRY, None, "The replica that was asked for is not available yet."
    MESSAGE_TOO_LARGE = 10, FINAL, None, "The records are larger than this topic accepts."
    STALE_CONTROLLER_EPOCH = 11, FINAL, None, "The controller that sent this has been replaced."
    OFFSET_METADATA_TOO_LARGE = 12, FINAL, MEMBER, "The metadata of a committed offset is too long; that offset was not committed."
    NETWORK_EXCEPTION = 13, RETRY, None, "The connection broke before the response arrived."
    COORDINATOR_LOAD_IN_PROGRESS = 14, RETRY, MEMBER, "The coordinator is still loading the group; ask again shortly."
    COORDINATOR_NOT_AVAILABLE = 15, RETRY, MEMBER, "The coordinator is not available, or could not store the change; find the coordinator again."
    NOT_COORDINATOR = 16, RETRY, MEMBER, "Another broker coordinates this group; find the coordinator again."
    INVALID_TOPIC_EXCEPTION = 17, FINAL, None, "The name is not a valid topic name, or the topic cannot be written to."
    RECORD_LIST_TOO_LARGE = 18, FINAL, None, "The batch is larger than a whole segment of the log."
    NOT_ENOUGH_REPLICAS = 19, RETRY, None, "Too few replicas are in sync; nothing was written."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, RETRY, None, "The records were written, but too few replicas were in sync afterwards."
    INVALID_REQUIRED_ACKS = 21, FINAL, None, "A producer may ask for 0, 1 or -1 acknowledgements only."
    ILLEGAL_GENERATION = 22, FINAL, MEMBER, "The group is in another generation; the member gives up its partitions and joins again."
    INCONSISTENT_GROUP_PROTOCOL = 23, FINAL, NOT_MEMBER, "The member supports no protocol type or assignor that all other members support, or named none."
    INVALID_GROUP_ID = 24, FINAL, NOT_MEMBER, "The group id is empty or not allowed here."
    UNKNOWN_MEMBER_ID = 25, FINAL, NOT_MEMBER, "The group does not have this member, or no longer; it must join without a member id."
    INVALID_SESSION_TIMEOUT = 26, FINAL, NOT_MEMBER, "The session timeout lies outside the limits of the broker."
    REBALANCE_IN_PROGRESS = 27, FINAL, MEMBER, "The group is between two generations; the member is expected to join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, FINAL, MEMBER, "The offset commit is too large for the log; it was not stored."
    TOPIC_AUTHORIZATION_FAILED = 29, FINAL, None, "The client is not authorized for this operation on the topic."
    GROUP_AUTHORIZATION_FAILED = 30, FINAL, None, "The client is not authorized for this operation on the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, FINAL, None, "The client is not authorized for this operation on the cluster."
    INVALID_TIMESTAMP = 32, FINAL, None, "The timestamp of a record is too far from the broker's time."
    UNSUPPORTED_SASL_MECHANISM = 33, FINAL, None, "The broker does not support this SASL mechanism; the response lists those it supports."
    ILLEGAL_SASL_STATE = 34, FINAL, None, "The request is not allowed at this point of the authentication."
    UNSUPPORTED_VERSION = 35, FINAL, None, "The broker does not support this version of the API."
    TOPIC_ALREADY_EXISTS = 36, FINAL, None, "A topic of this name exists already."
    INVALID_PARTITIONS = 37, FINAL, None, "The number of partitions is invalid; it must be positive and can only grow."
    INVALID_REPLICATION_FACTOR = 38, FINAL, None, "The replication factor is not positive, or larger than the number of brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, FINAL, None, "The replica assignment is invalid."
    INVALID_CONFIG = 40, FINAL, None, "A configuration has an unknown name or an invalid value."
    NOT_CONTROLLER = 41, RETRY, None, "Another broker is the controller; ask for metadata again."
    INVALID_REQUEST = 42, FINAL, None, "The fields of the request contradict each other or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, FINAL, None, "The partition's record format is too old for this request."
    POLICY_VIOLATION = 44, FINAL, None, "The request is well-formed, but a policy of the cluster forbids it."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, FINAL, None, "A batch of this producer is missing between the last one and this one."
    DUPLICATE_SEQUENCE_NUMBER = 46, FINAL, None, "This batch has been written before."
    INVALID_PRODUCER_EPOCH = 47, FINAL, None, "A newer producer with the same id has taken over."
    INVALID_TXN_STATE = 48, FINAL, None, "The transaction is not in a state that allows this."
    INVALID_PRODUCER_ID_MAPPING = 49, FINAL, None, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, FINAL, None, "The transaction timeout is above the limit of the broker."
    CONCURRENT_TRANSACTIONS = 51, RETRY, None, "The producer's previous transaction is still being completed; ask again shortly."
    TRANSACTION_COORDINATOR_FENCED = 52, FINAL, None, "The transaction coordinator that sent this has been replaced."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, FINAL, None, "The client is not authorized for this transactional id."
    SECURITY_DISABLED = 54, FINAL, None, "The broker has no authorizer, so there are no ACLs to list or to change."
    OPERATION_NOT_ATTEMPTED = 55, FINAL, None, "Another part of the same request failed, so this part was not attempted."
    KAFKA_STORAGE_ERROR = 56, RETRY, None, "The disk under the log failed; another broker may take over."
    LOG_DIR_NOT_FOUND = 57, FINAL, None, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, FINAL, None, "User name, password or token were not accepted."
    UNKNOWN_PRODUCER_ID = 59, FINAL, None, "The partition has no state of this producer; its records may have been deleted."
    REASSIGNMENT_IN_PROGRESS = 60, FINAL, None, "Replicas of the partition are being reassigned already."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, FINAL, None, "Delegation tokens are disabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, FINAL, None, "The broker does not know this delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, FINAL, None, "The delegation token belongs to another principal."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, FINAL, None, "Delegation tokens cannot be requested on this connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, FINAL, None, "The client is not authorized for this operation on the delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, FINAL, None, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, FINAL, None, "Only principals of type User can do this."
    NON_EMPTY_GROUP = 68, FINAL, None, "The group still has members; only an empty one can be deleted."
    GROUP_ID_NOT_FOUND = 69, FINAL, NOT_MEMBER, "There is no such group, or it is of another type."
    FETCH_SESSION_ID_NOT_FOUND = 70, RETRY, None, "The broker does not have the fetch session any more; begin a new one."
    INVALID_FETCH_SESSION_EPOCH = 71, RETRY, None, "The requests of the fetch session are out of order; begin a new one."
    LISTENER_NOT_FOUND = 72, RETRY, None, "The leader has no listener of the name that the client is connected to."
    TOPIC_DELETION_DISABLED = 73, FINAL, None, "Topic deletion is disabled."
    FENCED_LEADER_EPOCH = 74, RETRY, None, "The client's leader epoch is older than the broker's; ask for metadata again."
    UNKNOWN_LEADER_EPOCH = 75, RETRY, None, "The client's leader epoch is newer than the broker's; ask again shortly."
    UNSUPPORTED_COMPRESSION_TYPE = 76, FINAL, None, "The records use a compression type that this version cannot carry."
    STALE_BROKER_EPOCH = 77, FINAL, None, "The broker was restarted after the request was made."
    OFFSET_NOT_AVAILABLE = 78, RETRY, None, "A new leader does not know its high watermark yet; ask again shortly."
    MEMBER_ID_REQUIRED = 79, FINAL, NOT_MEMBER, "The member was given a member id; it joins the group when it sends JoinGroup again with it."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, RETRY, None, "The preferred leader of the partition is not available."
    GROUP_MAX_SIZE_REACHED = 81, FINAL, NOT_MEMBER, "The group has reached its maximum number of members."
    FENCED_INSTANCE_ID = 82, FINAL, NOT_MEMBER, "Another member has taken this group instance id; this one must stop."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, RETRY, None, "No replica that is eligible to lead the partition is available."
    ELECTION_NOT_NEEDED = 84, RETRY, None, "The partition has its preferred leader already."
    NO_REASSIGNMENT_IN_PROGRESS = 85, FINAL, None, "No reassignment of the partition is in progress."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, FINAL, None, "The group is still subscribed to this topic, so its offsets cannot be deleted."
    INVALID_RECORD = 87, FINAL, None, "The broker validated the records and rejected them."
    UNSTABLE_OFFSET_COMMIT = 88, RETRY, MEMBER, "A transaction that may change these offsets is still open; ask again shortly."
    THROTTLING_QUOTA_EXCEEDED = 89, RETRY, None, "The client exceeded its quota; ask again after the throttle time."
    PRODUCER_FENCED = 90, FINAL, None, "A newer producer with the same transactional id has taken over; this one must stop."
    RESOURCE_NOT_FOUND = 91, FINAL, None, "A resource that the request names does not exist."
    DUPLICATE_RESOURCE = 92, FINAL, None, "The request names the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, FINAL, None, "The new credential is not acceptable."
    INCONSISTENT_VOTER_SET = 94, FINAL, None, "The two sides have different sets of voters."
    INVALID_UPDATE_VERSION = 95, FINAL, None, "The new version cannot be reached from the present one."
    FEATURE_UPDATE_FAILED = 96, FINAL, None, "The feature level could not be changed."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, FINAL, None, "The principal of a forwarded request cannot be read."
    SNAPSHOT_NOT_FOUND = 98, FINAL, None, "The snapshot does not exist."
    POSITION_OUT_OF_RANGE = 99, FINAL, None, "The snapshot has no such position."
    UNKNOWN_TOPIC_ID = 100, RETRY, None, "This broker does not have a topic with this id."
    DUPLICATE_BROKER_REGISTRATION = 101, FINAL, None, "Another broker is registered with this id."
    BROKER_ID_NOT_REGISTERED = 102, FINAL, None, "No broker is registered with this id."
    INCONSISTENT_TOPIC_ID = 103, RETRY, None, "The topic id does not belong to the topic, on this broker at least."
    INCONSISTENT_CLUSTER_ID = 104, FINAL, None, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, FINAL, None, "The transactional id is unknown."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, RETRY, None, "A fetch session cannot change between topic names and ids; begin a new one."
    INELIGIBLE_REPLICA = 107, FINAL, None, "The replica cannot join the in-sync replicas at present."
    NEW_LEADER_ELECTED = 108, FINAL, None, "The change made another broker the leader of the partition."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, FINAL, None, "The records at this offset have been moved to tiered storage."
    FENCED_MEMBER_EPOCH = 110, FINAL, NOT_MEMBER, "The member epoch differs from the group's; the member gives up its partitions and joins with epoch 0."
    UNRELEASED_INSTANCE_ID = 111, FINAL, NOT_MEMBER, "Another member of the group still uses this group instance id."
    UNSUPPORTED_ASSIGNOR = 112, FINAL, NOT_MEMBER, "The broker does not have this assignor, or the group cannot use it."
    STALE_MEMBER_EPOCH = 113, FINAL, MEMBER, "The member has a newer member epoch by now; it asks again with that one."
    MISMATCHED_ENDPOINT_TYPE = 114, FINAL, None, "The request reached a broker and is meant for a controller, or the other way round."
    UNSUPPORTED_ENDPOINT_TYPE = 115, FINAL, None, "This type of endpoint is unknown."
    UNKNOWN_CONTROLLER_ID = 116, FINAL, None, "No controller has this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, FINAL, None, "The client's telemetry subscription is outdated; ask for it again."
    TELEMETRY_TOO_LARGE = 118, FINAL, None, "The client sent more telemetry at once than the broker accepts."
    INVALID_REGISTRATION = 119, FINAL, None, "The controller does not accept this registration of a broker."
    TRANSACTION_ABORTABLE = 120, FINAL, None, "The transaction cannot continue and must be aborted; the producer may go on."
    INVALID_RECORD_STATE = 121, FINAL, None, "The record is not in a state in which it can be acknowledged in this way."
    SHARE_SESSION_NOT_FOUND = 122, RETRY, None, "The broker does not have the share session any more; begin a new one."
    INVALID_SHARE_SESSION_EPOCH = 123, RETRY, None, "The requests of the share session are out of order; begin a new one."
    FENCED_STATE_EPOCH = 124, FINAL, None, "A newer coordinator of the share group has taken over its state."
    INVALID_VOTER_KEY = 125, FINAL, None, "The voter key is not that of the receiver."
    DUPLICATE_VOTER = 126, FINAL, None, "The voter is a voter already."
    VOTER_NOT_FOUND = 127, FINAL, None, "There is no such voter."
    INVALID_REGULAR_EXPRESSION = 128, FINAL, NOT_MEMBER, "The topic regular expression of the member is invalid."
    REBOOTSTRAP_REQUIRED = 129, FINAL, None, "The client should discard its metadata and start again from its bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, FINAL, None, "The topology of the streams application is invalid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, FINAL, None, "The epoch of the streams topology is invalid."
    STREAMS_TOPOLOGY_FENCED = 132, FINAL, None, "The group has a newer topology than this member."
    SHARE_SESSION_LIMIT_REACHED = 133, RETRY, None, "The broker cannot hold more share sessions."
    # fmt: on


_CODES: Final = frozenset(int(code) for code in ErrorCode)
