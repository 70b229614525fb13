from gputop.library import GputopError as GputopError
from gputop.library import NodeAnswers as NodeAnswers
from gputop.library import as_json as as_json
from gputop.library import demo as demo
from gputop.library import diff as diff
from gputop.library import load as load
from gputop.library import read as read
from gputop.library import read_text as read_text

__version__: str
DISTRIBUTION: str
own_process: bool
__all__: list[str]
