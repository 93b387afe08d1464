"""Sources and destinations of datasets: datasources, datasinks, one file per format."""
