"""The program of a driver whose commands run on two workers, the first of which is killed in the middle of a task.

A task on the first worker does all its work, writes its files, and then waits, so Spark does not learn that it is done.
Tasks on the second worker wait until this has happened, so that the first one gets a task. All go on freely once the
file SIGNALS/NAME.stopped is there. A command `lose NAME` prepares this for the function NAME.
"""

PROGRAM = """
import json, os, sys, time
from pathlib import Path
from regroup.cli.main import main
from regroup.pipeline.bronze import ingest, remote_stores
from regroup.pipeline.campaign import runner
from regroup.pipeline.gold import folding
from regroup.pipeline.spark.session import spark_session

master, settings, commands = json.loads(sys.argv[1])
SIGNALS = os.environ["SIGNALS"]

def may_stop(work, name):
    def attempt(*words, **named):
        import os, time
        from pathlib import Path
        expected, stopped = Path(SIGNALS, name + ".expected"), Path(SIGNALS, name + ".stopped")
        is_first = "first" in Path.cwd().parts
        while expected.exists() and not stopped.exists() and not is_first:
            time.sleep(0.05)
        done = work(*words, **named)
        if hasattr(done, "__next__"):
            done = iter(list(done))
        if expected.exists() and not stopped.exists() and is_first:
            stopped.touch()
            time.sleep(3600)
        return done
    return attempt

for module, name in ((ingest, "write_block"), (remote_stores, "copy_remote_store"), (folding, "fold_partition"),
                     (runner, "simulate_chunk")):
    setattr(module, name, may_stop(getattr(module, name), name))

def run(words):
    if words[0] != "lose":
        return main(words)
    Path(SIGNALS, words[1] + ".expected").touch()
    return 0

with spark_session(master, settings=settings):
    codes = [run(words) for words in commands]
print(json.dumps(codes))
"""
