"""Questions of beginners for the retrieval example, each with the pages that answer it; written before the ranking was tuned.

A page is right if its title is one of the names. ``TUNED`` was used to choose the example's fields and weights;
``HELD_OUT`` was not, and shows how much of that holds for other questions.
"""

from __future__ import annotations

TUNED: dict[str, set[str]] = {
    "How do I open a file for reading?": {"open", "pathlib.Path.open"},
    "How do I find the length of a list?": {"len"},
    "How do I sort a list of numbers?": {"sorted", "list.sort"},
    "How do I split a string into words?": {"str.split"},
    "How do I join a list of strings into one?": {"str.join"},
    "How do I ask the user to type something?": {"input"},
    "How do I round a number to two decimals?": {"round"},
    "How do I convert a string to an integer?": {"int"},
    "How do I copy a file?": {"shutil.copy", "shutil.copyfile", "shutil.copy2"},
    "How do I delete a file?": {"os.remove", "os.unlink", "pathlib.Path.unlink"},
    "How do I list the files in a folder?": {"os.listdir", "os.scandir", "pathlib.Path.iterdir"},
    "How do I check whether a file exists?": {
        "os.path.exists", "os.path.isfile", "pathlib.Path.exists", "pathlib.Path.is_file",
    },
    "How do I parse a JSON string?": {"json.loads"},
    "How do I pick a random element from a list?": {"random.choice", "random.choices"},
    "How do I get today's date?": {"datetime.date.today", "datetime.datetime.today", "datetime.datetime.now"},
    "How do I wait for a few seconds?": {"time.sleep"},
    "How do I remove spaces from both ends of a string?": {"str.strip"},
    "How do I replace a word in a string?": {"str.replace"},
    "How do I loop over a list together with the index?": {"enumerate"},
    "How do I add an element to the end of a list?": {"list.append"},
    "How do I make a string upper case?": {"str.upper"},
    "How do I add up all the numbers in a list?": {"sum", "math.fsum"},
    "How do I run a command and get its output?": {
        "subprocess.run", "subprocess.check_output", "subprocess.getoutput", "subprocess.getstatusoutput",
    },
    "How do I read a CSV file?": {"csv", "csv.reader", "csv.DictReader"},
    "How do I read the arguments of the command line?": {
        "argparse", "argparse.ArgumentParser", "argparse.ArgumentParser.parse_args",
    },
    "How do I calculate the square root of a number?": {"math.sqrt", "math.isqrt"},
    "How do I count how often each item occurs?": {"collections.Counter", "list.count"},
    "How do I start a thread?": {"threading.Thread", "threading.Thread.start"},
    "How do I catch an exception?": {"reference: try", "reference: exceptions"},
    "How do I repeat something while a condition is true?": {"reference: while"},
}  # fmt: skip

HELD_OUT: dict[str, set[str]] = {
    "How do I reverse a list?": {"reversed", "list.reverse"},
    "How do I get the absolute value of a number?": {"abs"},
    "How do I create a new folder?": {"os.mkdir", "os.makedirs", "pathlib.Path.mkdir"},
    "How do I rename a file?": {"os.rename", "os.replace", "pathlib.Path.rename"},
    "How do I test if a string starts with some prefix?": {"str.startswith"},
    "How do I search a string with a regular expression?": {"re", "re.search", "re.findall", "re.finditer"},
    "How do I measure how long my code takes?": {
        "timeit", "timeit.timeit", "timeit.Timer.timeit", "time.perf_counter",
    },
    "How do I download a web page?": {"urllib.request.urlopen", "urllib.request.urlretrieve"},
    "How do I unpack a zip file?": {
        "zipfile.ZipFile", "zipfile.ZipFile.extractall", "zipfile.ZipFile.extract", "shutil.unpack_archive",
    },
    "How do I copy a list with everything in it?": {"copy.deepcopy", "copy", "list.copy"},
    "How do I remove an element from a list?": {"list.remove", "list.pop"},
    "How do I get all keys of a dictionary?": {"dict.keys"},
    "How do I read an environment variable?": {"os.getenv", "os.environ"},
    "How do I stop my program?": {"sys.exit", "exit", "quit"},
    "How do I compute the average of some numbers?": {"statistics.mean", "statistics.fmean"},
}  # fmt: skip
