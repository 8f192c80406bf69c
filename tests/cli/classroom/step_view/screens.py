"""What a screen of `regroup step` shows, as lines of text."""

from textual.widget import Widget

from regroup.cli.classroom.step_view.app import Lines, StepApp


def text_of(app: StepApp) -> list[str]:
    """The lines of the whole terminal, as they were drawn last."""
    return lines_of_widget(app.screen_stack[0].query_one(Lines))


def lines_of_widget(widget: Widget) -> list[str]:
    return [widget.render_line(number).text for number in range(widget.size.height)]
