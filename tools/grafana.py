"""Dashboards in Grafana's own schema. `monitoring_files.py` writes them."""

from dashboards import Board, Figure, Panel
from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    GridPos,
    Threshold,
    ThresholdsMode,
)

_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_COLUMN, _HEIGHT, _STAT_HEIGHT = 12, 8, 4


def grafana(board: Board) -> dashboard.Dashboard:
    """The builder of a dashboard in Grafana's own schema."""
    built = (
        dashboard.Dashboard(board.title)
        .uid(f"clusterra-{board.name}")
        .tags(list(board.tags))
        .refresh("30s")
        .time("now-6h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .editable()
        .with_variable(dashboard.DatasourceVariable("datasource").type("prometheus").label("Prometheus"))
    )
    width = 24 // max(len(board.figures), 1)
    for index, figure in enumerate(board.figures):
        built = built.with_panel(_figure(figure).grid_pos(_position(index * width, 0, width, _STAT_HEIGHT)))
    for index, panel in enumerate(board.panels):
        row, column = divmod(index, 2)
        place = _position(column * _COLUMN, _STAT_HEIGHT + row * _HEIGHT, _COLUMN, _HEIGHT)
        built = built.with_panel(_graph(panel).grid_pos(place))
    return built


def _position(x: int, y: int, width: int, height: int) -> GridPos:
    return GridPos(h=height, w=width, x=x, y=y)


def _figure(figure: Figure) -> stat.Panel:
    good, bad = ("red", "green") if figure.bad_below else ("green", "red")
    steps = [Threshold(value=None, color=good)]
    if figure.bad is not None:
        steps.append(Threshold(value=figure.bad, color=bad))
    return (
        stat.Panel()
        .title(figure.title)
        .datasource(_SOURCE)
        .unit(figure.unit)
        .thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
        .with_target(prometheus.Dataquery().expr(figure.query).instant().ref_id("A"))
    )


def _graph(panel: Panel) -> timeseries.Panel:
    built = (
        timeseries.Panel()
        .title(panel.title)
        .description(panel.description)
        .datasource(_SOURCE)
        .unit(panel.unit)
        .min(0)
        .fill_opacity(8)
        .line_width(1)
        .legend(common.VizLegendOptions().show_legend(True))
    )
    for index, (legend, query) in enumerate(panel.queries.items()):
        built = built.with_target(
            prometheus.Dataquery().expr(query).legend_format(legend).range().ref_id(chr(ord("A") + index))
        )
    return built
