from billing.invoice import Line, totals


def test_one_line():
    assert totals([Line("paper", 3, "4.20", "19")]) == {
        "net": "12.60",
        "vat": "2.39",
        "gross": "14.99",
    }


def test_a_discount_is_taken_off_the_line():
    assert totals([Line("chair", 2, "80.00", "19", "25")]) == {
        "net": "120.00",
        "vat": "22.80",
        "gross": "142.80",
    }


def test_half_a_cent_goes_up():
    assert totals([Line("screw", 1, "0.125", "0")])["net"] == "0.13"


def test_two_rates():
    lines = [Line("book", 1, "10.00", "7"), Line("lamp", 1, "30.00", "19")]
    assert totals(lines) == {"net": "40.00", "vat": "6.40", "gross": "46.40"}
