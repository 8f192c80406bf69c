"""Answers that rest on what has just happened to the cluster."""

from regroup.protocol.message import Message
from regroup.server.cluster.state import Cluster
from regroup.server.net.exchange import Exchange


def reply_when_durable(exchange: Exchange, response: Message, cluster: Cluster) -> None:
    """Answer once everything that has happened so far is on disk; if the store fails, there is no answer."""
    cluster.when_durable(lambda: exchange.reply(response), lambda: exchange.hang_up("the store failed"))
