"""Show groups live, from the feed that `regroup serve --mqtt` publishes: states, members, lost connections, and refused
requests.

regroup watch --mqtt mqtt://localhost:1883
regroup watch --mqtt mqtts://broker.school:8883/classroom-7 --group payments
regroup watch --mqtt mqtt://localhost:1883 --events --from-start | grep member-removed

A terminal shows a table that is redrawn; otherwise, and with --events, each event is a line. User and password come
from REGROUP_MQTT_USERNAME and REGROUP_MQTT_PASSWORD, or from --mqtt-settings. Ctrl-C ends it.
"""

from argparse import ArgumentParser

from regroup.cli.terminal.arguments import add_mqtt_settings_argument, mqtt_address


def add_arguments(parser: ArgumentParser) -> None:
    parser.description = __doc__
    parser.set_defaults(job="regroup.cli.watch.command:run")
    add = parser.add_argument
    add("--mqtt", metavar="URL", type=mqtt_address, required=True, help="the MQTT broker: mqtt://HOST:PORT[/CLUSTER]")
    add_mqtt_settings_argument(parser)
    add("--group", metavar="G", help="only this group")
    add("--events", action="store_true", help="a line for each event, also on a terminal")
    add("--from-start", action="store_true", help="ask for every group's events from the first on")
    add("--for", metavar="SECONDS", dest="for_s", type=float, help="stop after so many seconds")
