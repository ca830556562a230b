"""Processes of each kind, whose functions are in modules that they can import."""

import multiprocessing
import warnings

import pytest


@pytest.fixture
def forked():
    """forked(work, *arguments): a started process that runs work(*arguments)."""
    context, started = multiprocessing.get_context("fork"), []

    def start(work, *arguments):
        process = context.Process(target=work, args=arguments)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forks beside threads
            process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.join()
        process.close()
