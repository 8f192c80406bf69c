"""Kafka's error codes as one table: what each means for whoever receives it.

    ErrorCode.REBALANCE_IN_PROGRESS.meaning                  "The group is between two generations; …"
    ErrorCode.REBALANCE_IN_PROGRESS.member_keeps_its_place   True
    ErrorCode(27).retriable                                  False

An `ErrorCode` is an int and can be put into any message as it is.
"""

from enum import IntEnum
from typing import Final

RETRY: Final = True
FINAL: Final = False
KEEPS: Final = True
LOSES: Final = False


class ErrorCode(IntEnum):
    """Code, whether the very same request may succeed later, what it does to a member's place, and the meaning."""

    retriable: bool
    """The same request, sent again, may succeed. False also where a client must first do something else."""
    member_keeps_its_place: bool | None
    """For the codes of the group APIs: does the member still stand in the group? None for all other codes."""
    meaning: str

    # The defaults serve the type checker alone, so that it accepts a look-up by number: ErrorCode(27).
    def __new__(
        cls, code: int, retriable: bool = FINAL, member_keeps_its_place: bool | None = None, meaning: str = ""
    ) -> "ErrorCode":
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.member_keeps_its_place = member_keeps_its_place
        member.meaning = meaning
        return member

    @classmethod
    def named(cls, code: int) -> str:
        """`REBALANCE_IN_PROGRESS` for 27; a code that is not in the table is shown as its number."""
        return cls(code).name if code in _CODES else f"error code {code}"

    # fmt: off
    UNKNOWN_SERVER_ERROR = -1, FINAL, None, "The broker failed in a way it has no code for."
    NONE = 0, FINAL, None, "Nothing went wrong."
    OFFSET_OUT_OF_RANGE = 1, FINAL, None, "The partition holds no record at this offset: it is too old or not yet written."
    CORRUPT_MESSAGE = 2, RETRY, None, "The records do not match their checksum, or cannot be what they claim to be."
    UNKNOWN_TOPIC_OR_PARTITION = 3, RETRY, None, "This broker does not have the topic or the partition."
    INVALID_FETCH_SIZE = 4, FINAL, None, "The fetch asks for an impossible number of bytes."
    LEADER_NOT_AVAILABLE = 5, RETRY, None, "The partition has no leader just now; one may be chosen soon."
    NOT_LEADER_OR_FOLLOWER = 6, RETRY, None, "Another broker has this partition; ask for metadata again."
    REQUEST_TIMED_OUT = 7, RETRY, None, "The broker could not finish in the time it was given; the deed may be done or not."
    BROKER_NOT_AVAILABLE = 8, FINAL, None, "The broker is not there."
    REPLICA_NOT_AVAILABLE = 9, RETRY, None, "The copy of the partition that was asked for is not there yet."
    MESSAGE_TOO_LARGE = 10, FINAL, None, "The records are larger than this topic accepts."
    STALE_CONTROLLER_EPOCH = 11, FINAL, None, "The word of a controller that has been replaced since."
    OFFSET_METADATA_TOO_LARGE = 12, FINAL, KEEPS, "The note beside a committed offset is too long; that offset was not committed."
    NETWORK_EXCEPTION = 13, RETRY, None, "The connection broke before an answer came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, RETRY, KEEPS, "The coordinator is still reading what it stored; ask again shortly."
    COORDINATOR_NOT_AVAILABLE = 15, RETRY, KEEPS, "There is no coordinator yet, or it could not store the change; look it up again."
    NOT_COORDINATOR = 16, RETRY, KEEPS, "Another broker coordinates this group; look it up again."
    INVALID_TOPIC_EXCEPTION = 17, FINAL, None, "No topic may have this name, or nobody may write to it."
    RECORD_LIST_TOO_LARGE = 18, FINAL, None, "The batch is larger than a whole segment of the log."
    NOT_ENOUGH_REPLICAS = 19, RETRY, None, "Too few copies are in sync; nothing was written."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, RETRY, None, "The records were written, but then too few copies were in sync."
    INVALID_REQUIRED_ACKS = 21, FINAL, None, "A producer may ask for 0, 1 or -1 acknowledgements, and nothing else."
    ILLEGAL_GENERATION = 22, FINAL, KEEPS, "The group is in another generation; the member gives up its partitions and joins again."
    INCONSISTENT_GROUP_PROTOCOL = 23, FINAL, LOSES, "The member shares no protocol type or assignor with all the others, or named none."
    INVALID_GROUP_ID = 24, FINAL, LOSES, "The group id is empty or otherwise not allowed here."
    UNKNOWN_MEMBER_ID = 25, FINAL, LOSES, "The group does not know this member, or no longer; it must join as a newcomer."
    INVALID_SESSION_TIMEOUT = 26, FINAL, LOSES, "The session timeout lies outside the limits of the broker."
    REBALANCE_IN_PROGRESS = 27, FINAL, KEEPS, "The group is between two generations; the member is expected to join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, FINAL, KEEPS, "The offset commit is too large for the log; it was not stored."
    TOPIC_AUTHORIZATION_FAILED = 29, FINAL, None, "The client may not do this with the topic."
    GROUP_AUTHORIZATION_FAILED = 30, FINAL, None, "The client may not do this with the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, FINAL, None, "The client may not do this with the cluster."
    INVALID_TIMESTAMP = 32, FINAL, None, "The time of a record is too far from the broker's own."
    UNSUPPORTED_SASL_MECHANISM = 33, FINAL, None, "The broker does not offer this way to log in; the answer lists those it does."
    ILLEGAL_SASL_STATE = 34, FINAL, None, "This request has no place at this point of the login."
    UNSUPPORTED_VERSION = 35, FINAL, None, "The broker does not speak this version of the API."
    TOPIC_ALREADY_EXISTS = 36, FINAL, None, "There is a topic of this name already."
    INVALID_PARTITIONS = 37, FINAL, None, "The number of partitions is impossible; it must be positive and can only grow."
    INVALID_REPLICATION_FACTOR = 38, FINAL, None, "The number of copies is not positive, or there are fewer brokers than that."
    INVALID_REPLICA_ASSIGNMENT = 39, FINAL, None, "The list of who holds which copy does not add up."
    INVALID_CONFIG = 40, FINAL, None, "A setting has an unknown name or a value that it cannot take."
    NOT_CONTROLLER = 41, RETRY, None, "Another broker is the controller; ask for metadata again."
    INVALID_REQUEST = 42, FINAL, None, "The fields of the request contradict one another or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, FINAL, None, "The partition's records are in a format that is too old for this."
    POLICY_VIOLATION = 44, FINAL, None, "The request is well formed, but a policy of the cluster forbids it."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, FINAL, None, "A batch of this producer is missing between the last one and this one."
    DUPLICATE_SEQUENCE_NUMBER = 46, FINAL, None, "This batch was written before."
    INVALID_PRODUCER_EPOCH = 47, FINAL, None, "A newer producer with the same id has taken over."
    INVALID_TXN_STATE = 48, FINAL, None, "The transaction is not in a state in which this can be done."
    INVALID_PRODUCER_ID_MAPPING = 49, FINAL, None, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, FINAL, None, "The transaction timeout is above the limit of the broker."
    CONCURRENT_TRANSACTIONS = 51, RETRY, None, "The producer's last transaction is still being finished; ask again shortly."
    TRANSACTION_COORDINATOR_FENCED = 52, FINAL, None, "The word of a transaction coordinator that has been replaced since."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, FINAL, None, "The client may not use this transactional id."
    SECURITY_DISABLED = 54, FINAL, None, "The broker checks no permissions, so there are none to look at or to change."
    OPERATION_NOT_ATTEMPTED = 55, FINAL, None, "Another part of the same request failed, so this part was not tried."
    KAFKA_STORAGE_ERROR = 56, RETRY, None, "The disk under the log failed; another broker may take over."
    LOG_DIR_NOT_FOUND = 57, FINAL, None, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, FINAL, None, "Name, password or token were not accepted."
    UNKNOWN_PRODUCER_ID = 59, FINAL, None, "The partition remembers nothing of this producer; its records may be gone."
    REASSIGNMENT_IN_PROGRESS = 60, FINAL, None, "Copies of the partition are being moved already."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, FINAL, None, "The broker is not set up for delegation tokens."
    DELEGATION_TOKEN_NOT_FOUND = 62, FINAL, None, "The broker does not know this delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, FINAL, None, "The delegation token belongs to somebody else."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, FINAL, None, "On this connection no delegation token may be asked for."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, FINAL, None, "The client may not do this with the delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, FINAL, None, "The time of the delegation token is over."
    INVALID_PRINCIPAL_TYPE = 67, FINAL, None, "Only principals of type User can do this."
    NON_EMPTY_GROUP = 68, FINAL, None, "The group still has members; only an empty one can be deleted."
    GROUP_ID_NOT_FOUND = 69, FINAL, LOSES, "There is no such group, or it is of another kind."
    FETCH_SESSION_ID_NOT_FOUND = 70, RETRY, None, "The broker has forgotten the fetch session; begin a new one."
    INVALID_FETCH_SESSION_EPOCH = 71, RETRY, None, "Requests of the fetch session came in the wrong order; begin a new one."
    LISTENER_NOT_FOUND = 72, RETRY, None, "The leader does not listen where this client came in."
    TOPIC_DELETION_DISABLED = 73, FINAL, None, "The cluster is set up so that topics cannot be deleted."
    FENCED_LEADER_EPOCH = 74, RETRY, None, "The client knows an older leader; ask for metadata again."
    UNKNOWN_LEADER_EPOCH = 75, RETRY, None, "The client knows a newer leader than this broker does; ask again shortly."
    UNSUPPORTED_COMPRESSION_TYPE = 76, FINAL, None, "The records are compressed in a way that this version cannot carry."
    STALE_BROKER_EPOCH = 77, FINAL, None, "The broker was restarted since this was said."
    OFFSET_NOT_AVAILABLE = 78, RETRY, None, "A new leader does not know yet how far the partition is safe; ask again shortly."
    MEMBER_ID_REQUIRED = 79, FINAL, LOSES, "The newcomer was given an id; it is in the group once it joins again with it."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, RETRY, None, "The broker that should lead the partition cannot."
    GROUP_MAX_SIZE_REACHED = 81, FINAL, LOSES, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, FINAL, LOSES, "Another member has taken this instance id; this one must stop."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, RETRY, None, "Nobody who could lead the partition is there."
    ELECTION_NOT_NEEDED = 84, RETRY, None, "The partition has the leader it should have."
    NO_REASSIGNMENT_IN_PROGRESS = 85, FINAL, None, "No copies of the partition are being moved."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, FINAL, None, "The group still reads this topic, so its offsets cannot be forgotten."
    INVALID_RECORD = 87, FINAL, None, "The broker looked into the records and refuses them."
    UNSTABLE_OFFSET_COMMIT = 88, RETRY, KEEPS, "A transaction that will change these offsets is still open; ask again shortly."
    THROTTLING_QUOTA_EXCEEDED = 89, RETRY, None, "The client has done too much of this; ask again after the throttle time."
    PRODUCER_FENCED = 90, FINAL, None, "A newer producer with the same transactional id has taken over; this one must stop."
    RESOURCE_NOT_FOUND = 91, FINAL, None, "What the request names is not there."
    DUPLICATE_RESOURCE = 92, FINAL, None, "The request names the same thing twice."
    UNACCEPTABLE_CREDENTIAL = 93, FINAL, None, "The new credential does not meet the rules."
    INCONSISTENT_VOTER_SET = 94, FINAL, None, "The two sides have different ideas of who votes."
    INVALID_UPDATE_VERSION = 95, FINAL, None, "The new version cannot be reached from the present one."
    FEATURE_UPDATE_FAILED = 96, FINAL, None, "The feature level could not be changed."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, FINAL, None, "A forwarded request does not say legibly on whose behalf it comes."
    SNAPSHOT_NOT_FOUND = 98, FINAL, None, "The snapshot that was asked for is not there."
    POSITION_OUT_OF_RANGE = 99, FINAL, None, "The snapshot has no such position."
    UNKNOWN_TOPIC_ID = 100, RETRY, None, "This broker does not have a topic with this id."
    DUPLICATE_BROKER_REGISTRATION = 101, FINAL, None, "Another broker is registered under this number."
    BROKER_ID_NOT_REGISTERED = 102, FINAL, None, "No broker is registered under this number."
    INCONSISTENT_TOPIC_ID = 103, RETRY, None, "Topic and id do not belong together, on this broker at least."
    INCONSISTENT_CLUSTER_ID = 104, FINAL, None, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, FINAL, None, "Nothing is known of this transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, RETRY, None, "A fetch session cannot change between topic names and ids; begin a new one."
    INELIGIBLE_REPLICA = 107, FINAL, None, "This copy may not be counted as in sync now."
    NEW_LEADER_ELECTED = 108, FINAL, None, "The change made another broker the leader of the partition."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, FINAL, None, "Records at this offset lie in remote storage now."
    FENCED_MEMBER_EPOCH = 110, FINAL, LOSES, "The member's epoch is not what the group knows; it gives up everything and joins with epoch 0."
    UNRELEASED_INSTANCE_ID = 111, FINAL, LOSES, "Another member of the group still uses this instance id."
    UNSUPPORTED_ASSIGNOR = 112, FINAL, LOSES, "The broker does not have the assignor that the member names, or the group cannot use it."
    STALE_MEMBER_EPOCH = 113, FINAL, KEEPS, "The member has a newer epoch by now; it asks again with that one."
    MISMATCHED_ENDPOINT_TYPE = 114, FINAL, None, "The request reached a broker and wants a controller, or the other way round."
    UNSUPPORTED_ENDPOINT_TYPE = 115, FINAL, None, "This kind of endpoint is not known here."
    UNKNOWN_CONTROLLER_ID = 116, FINAL, None, "No controller has this number."
    UNKNOWN_SUBSCRIPTION_ID = 117, FINAL, None, "The client's list of wanted metrics is outdated; ask for it again."
    TELEMETRY_TOO_LARGE = 118, FINAL, None, "The client sent more metrics at once than the broker takes."
    INVALID_REGISTRATION = 119, FINAL, None, "The controller does not accept this broker as it presents itself."
    TRANSACTION_ABORTABLE = 120, FINAL, None, "The transaction cannot go on and must be aborted; the producer itself may go on."
    INVALID_RECORD_STATE = 121, FINAL, None, "The record is not in a state in which it could be acknowledged so."
    SHARE_SESSION_NOT_FOUND = 122, RETRY, None, "The broker has forgotten the share session; begin a new one."
    INVALID_SHARE_SESSION_EPOCH = 123, RETRY, None, "Requests of the share session came in the wrong order; begin a new one."
    FENCED_STATE_EPOCH = 124, FINAL, None, "A newer coordinator of the share group has taken over its state."
    INVALID_VOTER_KEY = 125, FINAL, None, "The key of the voter is not that of the one who received this."
    DUPLICATE_VOTER = 126, FINAL, None, "The voter votes already."
    VOTER_NOT_FOUND = 127, FINAL, None, "There is no such voter."
    INVALID_REGULAR_EXPRESSION = 128, FINAL, LOSES, "The topic pattern that the member subscribes to cannot be read."
    REBOOTSTRAP_REQUIRED = 129, FINAL, None, "The client should forget the cluster and start again at its first addresses."
    STREAMS_INVALID_TOPOLOGY = 130, FINAL, None, "The description of the streams application does not add up."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, FINAL, None, "The epoch of the streams topology is impossible."
    STREAMS_TOPOLOGY_FENCED = 132, FINAL, None, "The group runs a newer topology than this member."
    SHARE_SESSION_LIMIT_REACHED = 133, RETRY, None, "The broker keeps no more share sessions than it has now."
    # fmt: on


_CODES: Final = frozenset(int(code) for code in ErrorCode)
