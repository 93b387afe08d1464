"""Private names of Ray that other packages import, such as `ray._private.worker.global_worker`, with the same behavior.

    constants.py         `ray._private.ray_constants`, and constants of public modules
    worker.py            `ray._private.worker`: the worker of this process
    state.py             `ray._private.state`: the state of the cluster
    test_kit.py          `ray._common.test_utils`: helpers for tests of programs
    cluster_test_kit.py  `ray._private.test_utils`: helpers for processes, actors and nodes
    functions.py         `ray._common.utils` and `ray._private.utils`
    library_names.py     private names of Ray Data

`skate.import_paths` lists the modules and their names. Each name is imported by a known package. Any other private name raises
ImportError or AttributeError.
"""
