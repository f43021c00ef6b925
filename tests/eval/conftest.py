"""The environments and the saved policy that tests of other rooms make, too."""

from __future__ import annotations

from tests.envs.conftest import reach as reach
from tests.study.conftest import other_run as other_run
from tests.study.conftest import saved_run as saved_run
from tests.study.conftest import trained as trained
