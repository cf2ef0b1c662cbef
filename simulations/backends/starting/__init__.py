"""The start of a Ray on this machine: in a folder of its own, without what a run does not need, its workers forked."""
